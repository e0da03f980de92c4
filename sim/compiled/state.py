"""The state of the compiled loop: records of numbers, the queue of events, random numbers and laws of times.

A class of annotations describes one record, and :func:`layout` makes the type of an array of it. The functions of the
loop get one record, :class:`Scalars`, that holds every single number and where each array begins: one pointer to hand
on, whatever a replication consists of. They keep to what numba compiles and import nothing of it.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np

from ettrick.sim.engine.kernel import EventPriority
from ettrick.sim.engine.nodes import PLACES
from ettrick.sim.quantiles import quantile
from ettrick.sim.rng import uniform_one

NO, NODES, PROCESSES, BOTH = 0, 1, 2, 3
"""The parts exposed to failures; the sum of nodes and processes is both."""

AT_FAILURE, AT_RETURN, NEVER = 0, 1, 2
"""The time at which the next life of a slot begins."""

WALL, IN_SERVICE, BUSY = 0, 1, 2

STALL, RESTORE, SAVE, ACQUIRE, EVICT, REQUEUE, RUN = 0, 1, 2, 3, 4, 5, 6

PROCESSES_KEPT, HOSTS_KEPT, STORES_KEPT = 0, 1, 2
"""The parts that survive on the nodes that have not failed."""

NEXT_RUNG = -2
"""The way out of a step that waits for nodes: the next rung of the ladder of recoveries."""

LIFE, INTERRUPTS, IDLE_MARK, REPAIR_MARK, RELAPSES, RELAPSE_AFTER, AWAY, STORE_OUT, DIAGNOSIS, BLAME = range(10)
"""The purposes of random numbers: columns of the keys. The lowering numbers the others."""

LOWEST, LONGEST_IDLE, RANDOM, FEWEST_FAILURES = 0, 1, 2, 3
"""The order in which waiting nodes are taken."""

(
    ON_END, ON_WARM, ON_WINDOW, ON_ARRIVAL, ON_ROW, ON_CANDIDATE, ON_DEFERRED, ON_LIFE,
    ON_HIDDEN, ON_ONSET, ON_RETURN, ON_VISIT_END, ON_REPAIRED, ON_TESTED, ON_SAVED,
    ON_PHASE_END, ON_DETECTED, ON_ELIGIBLE, ON_TIMEOUT, ON_LOOK,
) = range(20)  # fmt: skip
"""Kinds of events."""

BOUNDARY, RETURN, PHASE = EventPriority.BOUNDARY, EventPriority.RETURN, EventPriority.PHASE
FAILURE, ARRIVAL = EventPriority.FAILURE, EventPriority.ARRIVAL


class ArraySize(NamedTuple):
    """The length of an array: `times` a number of the scenario, and some more; and whether a copy puts it back."""

    unit: str
    times: int = 1
    extra: int = 0
    is_restored: bool = False


SHARED, COPIED = ArraySize("shared"), ArraySize("copied", is_restored=True)
"""Sizes of what is made with the scenario: the loop gets that itself, or a copy of that."""

BLOCK = 32
"""Units that are looked at together: most of them live on, and the processor hashes several at once."""


class Scalars:
    """Every single number of a replication, and its arrays, of which the record holds the addresses."""

    # How the scenario is.
    end: float
    warmup: float
    windows: float
    gpus_per_node: int
    node_count: int
    causes: int
    sources: int
    withheld: int
    pick: int
    pick_key: int
    counts_service: bool
    uses_lives: bool
    purposes: int
    pool_count: int
    pool_room: int
    arrival: float
    gpus: float
    nodes_needed: int
    positions: int
    step_time: float
    target: float
    interval: float
    stall: float
    drain: float
    load: float
    start_plan: int
    plain_plan: int
    swap_plan: int
    away_plan: int
    any_plan: int
    save_plan: int
    saving_plan: int
    given_up: float
    has_crews: bool
    tier_count: int
    visit_purposes: int
    first_purposes: int
    diagnosis_finds: float
    blames_other: float
    test_law: int
    test_finds: float
    repair_scale: float
    blame_purposes: int
    # Ladders: of stores, of recoveries.
    series: int
    stores: int
    slope: float
    spread: float
    peer_load: float
    replicas: int
    rungs: int
    classes: int
    no_progress: int
    resets: bool
    exhausted_plan: int
    first_position: int
    minds_nodes: bool
    most_joiners: int
    # The replication.
    now: float
    is_open: bool
    events: int
    room: int
    waiting: int
    number: int
    call_count: int
    first_free: int
    row: int
    rows: int
    rows_room: int
    draws: bool
    outages: int
    dormant: int
    onsets: int
    window: int
    edges: int
    log_room: int
    downtimes: int
    downtimes_room: int
    life_count: int
    hidden_at_end: int
    lives_room: int
    due_room: int
    links: int
    links_room: int
    stays: int
    stays_room: int
    patients: int
    patients_room: int
    visit_count: int
    visits_room: int
    picks: int
    down_node_seconds: float
    down: int
    down_area: float
    down_last: float
    withheld_last: float
    repairing_first: int
    repairing_last: int
    suspects: int
    suspects_room: int
    # Repairs that begin when the job knows of a failure.
    pendings: int
    pendings_room: int
    swaps: int
    waits: int
    waits_room: int
    missing: int
    highest: int
    has_offer: bool
    # The job, and its only group.
    since: float
    cause: int
    incident: int
    is_running: bool
    run_at: float
    is_detecting: bool
    detect_at: float
    is_starved: bool
    segment: int
    step: int
    steps: int
    epoch: int
    attempt: int
    exposed: int
    fail_source: int
    fail_slot: int
    fail_round: int
    mark_source: int
    mark_slot: int
    mark_round: int
    saves: bool
    ready_at: float
    is_called: bool
    is_holding: bool
    is_block: bool
    is_queued: bool
    starts: int
    start: float
    end_of_job: float
    is_finished: bool
    saved_at: float
    restore_seconds: float
    is_reading: bool
    finish_at: float
    looks_at: float
    counts_steps: bool
    store_back: float
    running_seconds: float
    node_seconds: float
    excess: float
    merged: int
    pieces: int
    # What has happened to its nodes, what it reads, and how far its recovery has come.
    is_live: bool
    hurts: int
    stamp: int
    restore_store: int
    read_store: int
    rung: int
    is_first_lost: bool
    in_vain: int
    furthest: float
    joiners: int
    tests: int
    tests_room: int
    # What the checkpoint strategy knows, and knew before a save that may be cut off.
    committed: float
    at_risk: float
    position: float
    draining: float
    drain_left: float
    stall_left: float
    is_first: bool
    work: float
    unsaved_work: float
    unsaved_committed: float
    unsaved_at_risk: float
    unsaved_position: float
    unsaved_draining: float
    unsaved_drain_left: float
    unsaved_stall_left: float
    unsaved_is_first: bool
    # Arrays: of the scenario and of the replication. Those without a size are put in place when they are known.
    nodes: Annotated[list[Node], SHARED]
    queue: Annotated[list[HeapEntry], ArraySize("room")]
    calls: Annotated[list[CallRecord], ArraySize("room")]
    origins: Annotated[list[Origin], SHARED]
    keys: Annotated[list[int], ArraySize("keys")]
    laws: Annotated[list[float], SHARED]
    watchers: Annotated[list[ObserverRecord], SHARED]
    tiers: Annotated[list[TierRecord], COPIED]
    templates: Annotated[list[StepRecord], SHARED]
    times: Annotated[list[Time], SHARED]
    plans: Annotated[list[PlanRecord], SHARED]
    current: Annotated[list[int], ArraySize("steps")]
    periods: Annotated[list[float], SHARED]
    stalls: Annotated[list[float], SHARED]
    ratios: Annotated[list[float], SHARED]
    first_periods: Annotated[list[float], SHARED]
    longest: Annotated[list[int], SHARED]
    since_stop: Annotated[list[float], ArraySize("stops", 2, is_restored=True)]
    in_stop: Annotated[list[bool], ArraySize("stops", 2, is_restored=True)]
    firsts: Annotated[list[float], ArraySize("stops")]
    counts: Annotated[list[int], ArraySize("stops")]
    next_in_stop: Annotated[list[bool], ArraySize("stops")]
    shelves: Annotated[list[StoreRecord], COPIED]
    restored: Annotated[list[int], ArraySize("stores", extra=1, is_restored=True)]
    damage: Annotated[list[int], ArraySize("job")]
    hurt: Annotated[list[int], ArraySize("job")]
    lacks: Annotated[list[int], ArraySize("job")]
    gone: Annotated[list[int], ArraySize("job")]
    stamped: Annotated[list[int], ArraySize("job", extra=1)]
    rung_of: Annotated[list[RungRecord], SHARED]
    rung_plans: Annotated[list[int], SHARED]
    tries: Annotated[list[int], ArraySize("rungs", is_restored=True)]
    evicts: Annotated[list[int], SHARED]
    means: Annotated[list[float], SHARED]
    tested: Annotated[list[int], ArraySize("room")]
    pools: Annotated[list[PoolRecord], COPIED]
    pool_order: Annotated[list[int], SHARED]
    entry: Annotated[list[HeapEntry], ArraySize("room", PLACES)]
    pool_key: Annotated[list[float], ArraySize("nodes", PLACES)]
    clocks: Annotated[list[ClockRecord], ArraySize("clocks", is_restored=True)]
    dues: Annotated[list[HeapEntry], ArraySize("room", 3)]
    lives: Annotated[list[LifeRecord], ArraySize("room")]
    link: Annotated[list[LifeLink], ArraySize("room")]
    suspect: Annotated[list[Suspect], ArraySize("room")]
    pending: Annotated[list[CallRecord], ArraySize("room")]
    wait: Annotated[list[Suspect], ArraySize("room")]
    phase: Annotated[list[SegmentRecord], ArraySize("steps", extra=1, is_restored=True)]
    stay: Annotated[list[SegmentRecord], ArraySize("room")]
    patient: Annotated[list[RepairRecord], ArraySize("room")]
    visits: Annotated[list[VisitRecord], ArraySize("room", 2)]
    piece: Annotated[list[Risk], ArraySize("windows", extra=1)]
    lacking: Annotated[list[int], ArraySize("nodes")]
    swapped: Annotated[list[int], ArraySize("nodes")]
    """Nodes that were swapped although nobody was blamed since the job last stepped: `swaps` of them."""
    hidden_in: Annotated[list[int], ArraySize("nodes")]
    """Pool of each, or -1 while it is in none."""
    seat: Annotated[list[int], ArraySize("job")]
    rank_place: Annotated[list[int], SHARED]
    picked: Annotated[list[int], ArraySize("job")]
    offset: Annotated[list[int], SHARED]
    member: Annotated[list[int], SHARED]
    outside_job: Annotated[list[int], ArraySize("nodes")]
    initial: list[LifeLink]
    sleeper: list[LifeLink]
    caught: list[LifeLink]
    having: list[int]
    trace: Annotated[list[TraceRow], ArraySize("room")]
    trace_order: Annotated[list[int], ArraySize("room")]
    """The rows of the trace by their times."""
    shares: Annotated[list[int], ArraySize("room")]
    uniforms: Annotated[list[float], ArraySize("block")]
    table: Annotated[list[float], ArraySize("table", is_restored=True)]
    others_table: Annotated[list[float], ArraySize("table", is_restored=True)]
    absent: Annotated[list[float], ArraySize("buckets", is_restored=True)]
    edge: Annotated[list[float], ArraySize("windows", extra=2, is_restored=True)]
    down_time: Annotated[list[float], ArraySize("nodes", extra=1)]
    repairs_begun: Annotated[list[int], ArraySize("causes", is_restored=True)]
    interrupted: Annotated[list[int], ArraySize("causes", is_restored=True)]
    disrupted: Annotated[list[int], ArraySize("causes", is_restored=True)]
    latencies: Annotated[list[float], ArraySize("causes", is_restored=True)]
    logged: list[Logged]
    downtime: list[Downtime]
    # Events by what became of them, as `ettrick.sim.engine.lives.Counts`.
    candidates: int
    suppressed: int
    faults: int
    harmless: int
    failures: int
    masked: int
    outside: int
    hits: int
    relapses: int
    repairs: int
    false_repairs: int
    unblamed: int
    evicted: int
    wrong_blames: int
    true_alarms: int
    false_alarms: int
    missed: int


class Node:
    """The state of a node: where it begins and is, its open outages, and its clocks.

    What is used together stands together: of a large cluster each node is far from the processor.
    """

    home: int
    place: int
    position: int
    in_job: bool
    is_touched: bool
    has_clock: bool
    is_down: bool
    outages: int
    down_since: float
    down_cause: int
    stay_since: float
    stay_cause: int
    stay_segment: int
    stay_bucket: int
    earlier: int
    later: int
    failed: int
    hidden: int
    hidden_parked: int
    renewals: int
    parked: int
    was_down: float
    clock_before: float
    clock_joined: float
    first_life: int


class HeapEntry:
    """A place of a heap, and what it stands for: a call of the queue, a life of a clock, or a node of a pool.

    The queue goes by time, order and number of the call; a clock by its reading [s] and the order and round of a life;
    a pool by the key by which nodes are picked, and the node.
    """

    time: float
    order: int
    number: int
    item: int


class CallRecord:
    """A scheduled call; the meaning of the numbers follows from the kind."""

    kind: int
    source: int
    slot: int
    round: int
    node: int
    count: int
    due: float
    free: int


class Origin:
    """A source of failures; see `ettrick.sim.failures.FailureSource`."""

    of_job: bool
    divisor: int
    renews: int
    returns: bool
    clock: int
    hidden: bool
    idle_hazard: float
    interrupts: float
    always: bool
    detection: float
    first_observer: int
    observers: int
    human: int
    human_purpose: int
    repair: float
    repair_law: int
    by_course: bool
    mends_nothing: bool
    planned: bool
    bucket: int
    saves: bool
    notice: float
    recall: float
    foreseen: int
    lead: int
    lead_purpose: int
    alarm: bool
    defer: bool
    away: int
    store_out: int
    fault: int
    reboots: bool
    ends_rank: bool
    has_residue: bool
    relapse: float
    relapse_after: int
    tier: int
    life: int
    first_offset: int
    onset: int
    onset_key: int
    apart: bool
    units: int
    reach: float
    is_ahead: bool
    first_having: int


class ObserverRecord:
    """An observer, as `ettrick.sim.policies.detection.race` asks it."""

    least: float
    coverage: float
    covers: int
    law: int
    latency: int


class TierRecord:
    """A tier of repair."""

    law: int
    escalates: float
    fixes: float
    crews: int
    free: int
    first: int
    last: int


class StepRecord:
    """A step of a plan; a step that takes time has one time or several, one after another.

    Pools are four bits each, the first one lowest: the state of their nodes and one.
    """

    kind: int
    bucket: int
    exposed: int
    first_time: int
    time_count: int
    scale: float
    keeps: int
    rung: int
    in_a_row: int
    timeout: float
    otherwise: int
    from_pools: int
    fill: bool


class Time:
    """A time of a recovery: fixed, or drawn from a law; see `ettrick.sim.policies.recovery.phases.Phase`."""

    seconds: float
    law: int
    purpose: int
    draws: int
    factor: float
    mean: float
    first_mean: int


class RungRecord:
    """A rung of a ladder of recoveries; its classes of faults are bits."""

    handles: int
    except_first: bool
    budget: int
    backoff: float
    most_backoff: float


class StoreRecord:
    """A store of checkpoints, and what it holds: see `ettrick.sim.policies.checkpoint.stores`, Rung and Shelf."""

    load: float
    fetch: float
    drain: float
    limit: int
    keeps_all: bool
    takes: int
    clique: int
    jump: int
    every_replica: bool
    newest: float
    checkpoints: int
    good: bool
    draining: float
    drain_left: float
    is_first: bool
    passed: int
    is_left: bool
    holds: bool
    lost: int


class PlanRecord:
    """The positions of the steps of a plan."""

    first: int
    count: int


class PoolRecord:
    """Nodes that wait in one place."""

    is_there: bool
    first: int
    count: int
    area: float
    last: float
    place: int
    target: int
    refills: bool
    delay: float
    one_by_one: bool
    size: int


class ClockRecord:
    """Time that runs now and then; see `ettrick.sim.engine.lives.ExposureClock`."""

    is_on: bool
    since: float
    total: float
    at: float
    order: int
    size: int


class LifeRecord:
    """A life of a slot, and its successor in the lists of its node."""

    node: int
    source: int
    slot: int
    round: int
    due: float
    token: int
    next: int
    next_hidden: int
    is_hidden: bool


class LifeLink:
    """A life in a list of a node that waits for its return."""

    source: int
    slot: int
    round: int
    due: float
    life: int
    next: int


class SegmentRecord:
    """A stretch of waiting: bucket and end [s]; of a stay in repair, the next one."""

    bucket: int
    end: float
    next: int


class Suspect:
    """A node that failed and that the job does not know of yet, or a candidate that waits."""

    node: int
    source: int
    slot: int
    round: int
    until: float


class RepairRecord:
    """A node in repair, and how far it has come."""

    node: int
    source: int
    slot: int
    round: int
    is_wrong: bool
    is_fixed: bool
    first: int
    count: int
    visit: int
    next: int


class VisitRecord:
    """A stay in a tier, -1 for qualification."""

    tier: int
    seconds: float


class Risk:
    """Work that is not durable yet [s], and the window in which it was earned."""

    work: float
    window: int


class TraceRow:
    """A life by when it ends, as a row of `ettrick.sim.failures.FailureTrace`."""

    time: float
    source: int
    slot: int
    round: int
    until: float


class Logged:
    """An event that has been simulated: when, and what it was."""

    time: float
    kind: int


class Downtime:
    """A stretch in which a node was down, as `sim.engine.result.Outage`, with times of the clock of the simulation."""

    node: int
    cause: int
    start: float
    end: float


class FullError(Exception):
    """An array has no place left: the loop ends where it is, and begins again with larger arrays."""


class FailureId(NamedTuple):
    """A failure by the source, the slot and the number of its life."""

    source: int
    slot: int
    round: int


# ----------------------------------------
# Arrays of records.


_NUMBERS = {int: np.dtype(np.int64), float: np.dtype(np.float64), bool: np.dtype(np.bool_)}


@functools.cache
def layout(record: type) -> np.dtype[np.void]:
    """Return the type of an array whose elements have the annotated fields of a record; of a list its address."""
    hints = get_type_hints(record)
    fields = [(name, _NUMBERS[kind]) if kind in _NUMBERS else (f"{name}_at", np.int64) for name, kind in hints.items()]
    return np.dtype(fields, align=True)


ARRAYS: dict[str, np.dtype[Any]] = {
    name: _NUMBERS[element] if element in _NUMBERS else layout(element)
    for name, kind in get_type_hints(Scalars).items()
    if get_origin(kind) is list
    for element in get_args(kind)
}
"""The elements of each array of the scalars."""

SIZES: dict[str, ArraySize] = {
    name: get_args(kind)[1]
    for name, kind in get_type_hints(Scalars, include_extras=True).items()
    if get_origin(kind) is Annotated
}
"""The sizes of the arrays that are there from the start."""


# ----------------------------------------
# The queue of events, and random numbers.


def schedule(
    s: Scalars,
    time: float,
    order: int,
    kind: int,
    source: int,
    slot: int,
    number: int,
    node: int,
    count: int,
    due: float,
) -> None:
    """Let something happen at `time` [s]; ties are broken by `order`, then by the order of these calls."""
    if s.waiting == s.room or s.call_count == s.room:
        raise FullError
    index = s.first_free
    if index >= 0:
        s.first_free = s.calls[index].free
    else:
        index = s.call_count
        s.call_count += 1
    call = s.calls[index]
    call.kind, call.source, call.slot, call.round = kind, source, slot, number
    call.node, call.count, call.due = node, count, due
    push_entry(s.queue, 0, s.waiting, time, order, s.number, index)
    s.number += 1
    s.waiting += 1


def schedule_failure(
    s: Scalars, time: float, order: int, kind: int, failure: FailureId, first: int, count: int, due: float
) -> None:
    """Let something happen at `time` [s] to the nodes of a failure."""
    schedule(s, time, order, kind, failure.source, failure.slot, failure.round, first, count, due)


def take_next(s: Scalars) -> int:
    """Take the first event off the queue, let it be now, and return its call."""
    s.now = s.queue[0].time
    call = s.queue[0].item
    s.waiting -= 1
    pop_entry(s.queue, 0, s.waiting)
    return call


def push_entry(heap: list[HeapEntry], first: int, size: int, time: float, order: int, number: int, item: int) -> None:
    """Enter something in a heap of `size` entries that begins at `first`."""
    place = size
    while place > 0:
        above = (place - 1) >> 1
        if not is_before(time, order, number, heap[first + above]):
            break
        copy_entry(heap, first + above, first + place)
        place = above
    it = heap[first + place]
    it.time, it.order, it.number, it.item = time, order, number, item


def pop_entry(heap: list[HeapEntry], first: int, size: int) -> None:
    """Take the top off a heap that begins at `first`, and of which `size` entries are left."""
    last = heap[first + size]
    place = 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size:
            right = heap[first + below + 1]
            below += is_before(right.time, right.order, right.number, heap[first + below])
        if is_before(last.time, last.order, last.number, heap[first + below]):
            break
        copy_entry(heap, first + below, first + place)
        place = below
    copy_entry(heap, first + size, first + place)


def is_before(time: float, order: int, number: int, it: HeapEntry) -> bool:
    """Return whether something comes before an entry of a heap."""
    if time != it.time:
        return time < it.time
    return order < it.order or (order == it.order and number < it.number)


def copy_entry(heap: list[HeapEntry], origin: int, target: int) -> None:
    """Copy an entry of a heap."""
    it, copy = heap[origin], heap[target]
    copy.time, copy.order, copy.number, copy.item = it.time, it.order, it.number, it.item


def mark(s: Scalars, failure: FailureId, purpose: int) -> float:
    """Return the uniform number of a failure for a purpose; of the source after the last, that of a start."""
    return uniform_one(s.keys[failure.source * s.purposes + purpose], failure.slot, failure.round)


def mark_at(s: Scalars, failure: FailureId, purpose: int, node: int) -> float:
    """Return the number for one of the nodes of a failure; where each is repaired by itself, each has its own."""
    number = mark(s, failure, purpose)
    return uniform_one(int(number * 2.0**53), node, 0) if s.origins[failure.source].apart else number


def draw(s: Scalars, law: int, failure: FailureId, purpose: int) -> float:
    """Return a time of a law [s]."""
    return quantile(s.laws, law, mark(s, failure, purpose))


def is_foreseen(s: Scalars, failure: FailureId) -> bool:
    """Return whether it is known which node it is before that fails, or seems to."""
    origin = s.origins[failure.source]
    return origin.recall > 0 and (origin.recall >= 1 or mark(s, failure, origin.foreseen) < origin.recall)


def notice_of(s: Scalars, failure: FailureId) -> float:
    """Return the time from the moment when somebody knows of a failure to the stop [s]; -1 if nobody does before."""
    origin = s.origins[failure.source]
    if origin.saves:
        return origin.notice
    return draw(s, origin.lead, failure, origin.lead_purpose) if is_foreseen(s, failure) else -1.0


def draw_at(s: Scalars, law: int, failure: FailureId, purpose: int, node: int) -> float:
    """Return a time of a law [s] for one of the nodes of a failure."""
    return quantile(s.laws, law, mark_at(s, failure, purpose, node))


def life_of(s: Scalars, source: int, slot: int, number: int) -> float:
    """Return life `number` of a slot [s]."""
    return draw(s, s.origins[source].life, FailureId(source, slot, number), LIFE)

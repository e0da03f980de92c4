"""Nodes in the compiled loop: clocks and lives, pools, and what is open against each node.

As `ettrick.sim.engine.lives` and `ettrick.sim.engine.nodes`, with one group of nodes: those of the only job.
"""

from __future__ import annotations

import math

from ettrick.sim.compiled import state
from ettrick.sim.compiled.state import FailureId, FullError, Node, PoolRecord, Scalars
from ettrick.sim.engine.kernel import order_of
from ettrick.sim.engine.lives import RELAPSE
from ettrick.sim.engine.nodes import NodeState
from ettrick.sim.failures.trace import PARTS
from ettrick.sim.policies.contracts import Bucket
from ettrick.sim.rng import uniform_one

IDLE, SPARE, JOB, REPAIR = NodeState.IDLE, NodeState.SPARE, NodeState.JOB, NodeState.REPAIR
WARM, COLD, WITHHELD = NodeState.WARM, NodeState.COLD, NodeState.WITHHELD

BUCKETS = len(Bucket)

SPARE_IDLE, IN_REPAIR, QUALIFICATION, UNALLOCATED = (
    int(bucket) for bucket in (Bucket.SPARE_IDLE, Bucket.REPAIR, Bucket.QUALIFICATION, Bucket.UNALLOCATED)
)

PROCESS_CLOCK, HELD_CLOCK, BUSY_CLOCK = 0, 1, 2

WITHHELD_OUTAGES = 1 << 60
"""Open outages of a node that nobody gets: it never returns."""

TOKEN = 32
"""Bits of the number of a life on the heap of a clock; its token follows."""

FEW_FALLS = 8
"""The number of nodes below their predecessor in a list up to which one run of insertions sorts it sooner [-]."""

# ----------------------------------------
# Lives on the clocks of the job and of its nodes.


def read(s: Scalars, clock: int, now: float) -> float:
    """Return for how long a clock has run so far [s]."""
    it = s.clocks[clock]
    return it.total + (now - it.since) if it.is_on else it.total


def turn(s: Scalars, clock: int, now: float, on: bool) -> None:
    """Let a clock run, or stand still."""
    it = s.clocks[clock]
    if not on:
        it.total = read(s, clock, now)
    elif not it.is_on:
        it.since = now
    it.is_on = on


def new_life(s: Scalars, node: int, source: int, slot: int, number: int, due: float) -> int:
    """Return the place of a new life."""
    if s.life_count == s.lives_room:
        raise FullError
    index = s.life_count
    s.life_count += 1
    life = s.lives[index]
    life.node, life.source, life.slot, life.round, life.due = node, source, slot, number, due
    life.token, life.next, life.next_hidden, life.is_hidden = 0, -1, -1, False
    return index


def push_life(s: Scalars, clock: int, index: int, due: float) -> None:
    """Let a life end at a reading of a clock [s]."""
    it = s.clocks[clock]
    if it.size == s.due_room:
        raise FullError
    life = s.lives[index]
    order, item = order_of(life.source, life.slot), life.token << TOKEN | index
    state.push_entry(s.dues, clock * s.due_room, it.size, due, order, life.round, item)
    it.size += 1


def pop_life(s: Scalars, clock: int) -> None:
    """Take the first life off the heap of a clock."""
    it = s.clocks[clock]
    it.size -= 1
    state.pop_entry(s.dues, clock * s.due_room, it.size)


def first_life(s: Scalars, clock: int) -> int:
    """Return the first life of a clock to end, or -1; forget those whose node has left."""
    while s.clocks[clock].size > 0:
        item = s.dues[clock * s.due_room].item
        index = item & ((1 << TOKEN) - 1)
        if s.lives[index].token == item >> TOKEN:
            return index
        pop_life(s, clock)
    return -1


def arm(s: Scalars, clock: int, now: float) -> None:
    """Arrange the event of the first life to end, if the clock runs."""
    it = s.clocks[clock]
    if it.is_on and first_life(s, clock) >= 0:
        first = s.dues[clock * s.due_room]
        time, order = now + max(first.time - read(s, clock, now), 0.0), first.order
        if time < it.at or (time == it.at and order < it.order):
            it.at, it.order = time, order
            state.schedule(s, time, order, state.ON_LIFE, clock, order, 0, 0, 0, time)


def keep_life(s: Scalars, index: int) -> None:
    """Enter a life in the list of its node."""
    node = s.nodes[s.lives[index].node]
    node.is_touched = True
    s.lives[index].next = node.first_life
    node.first_life = index


def drop_life(s: Scalars, index: int) -> bool:
    """Take a life out of the list of its node; return whether it was there."""
    node = s.nodes[s.lives[index].node]
    current = node.first_life
    if current == index:
        node.first_life = s.lives[index].next
        return True
    while current >= 0:
        following = s.lives[current].next
        if following == index:
            s.lives[current].next = s.lives[index].next
            return True
        current = following
    return False


def push_node_life(s: Scalars, index: int) -> None:
    """Let a life of a node of the job end with the clock of the job."""
    life = s.lives[index]
    node = s.nodes[life.node]
    push_life(s, BUSY_CLOCK, index, life.due - node.clock_before + node.clock_joined)


def begin_busy(s: Scalars, index: int, seconds: float, now: float) -> None:
    """Let a life of a node, which may be in the job, end after `seconds` of its busy time."""
    life = s.lives[index]
    node = s.nodes[life.node]
    if not node.has_clock:
        node.has_clock = True
        s.uses_lives = True
        node.clock_joined = read(s, BUSY_CLOCK, now) if node.in_job else 0.0
    life.due = node.clock_before + seconds
    if node.in_job:
        life.due += read(s, BUSY_CLOCK, now) - node.clock_joined
    keep_life(s, index)
    if node.in_job:
        push_node_life(s, index)
        arm(s, BUSY_CLOCK, now)


def join(s: Scalars, index: int, now: float) -> None:
    """Let the lives of a node run with the job."""
    node = s.nodes[index]
    if not node.has_clock:
        return
    node.clock_joined = read(s, BUSY_CLOCK, now)
    life = node.first_life
    while life >= 0:
        push_node_life(s, life)
        life = s.lives[life].next
    arm(s, BUSY_CLOCK, now)


def part(s: Scalars, index: int, now: float) -> None:
    """Stop the lives of a node that leaves the job."""
    node = s.nodes[index]
    if not node.has_clock:
        return
    node.clock_before += read(s, BUSY_CLOCK, now) - node.clock_joined
    life = node.first_life
    while life >= 0:
        s.lives[life].token += 1
        life = s.lives[life].next


# ----------------------------------------
# Lives that begin or go on when a node returns, and faults that a repair left in it.


def add_link(s: Scalars, first: int, source: int, slot: int, number: int, due: float, life: int) -> int:
    """Put something at the end of a list that begins at `first`; return where the list begins now."""
    if s.links == s.links_room:
        raise FullError
    index = s.links
    s.links += 1
    link = s.link[index]
    link.source, link.slot, link.round, link.due, link.life, link.next = source, slot, number, due, life, -1
    if first < 0:
        return index
    last = first
    while s.link[last].next >= 0:
        last = s.link[last].next
    s.link[last].next = index
    return first


def renew(s: Scalars, failure: FailureId) -> None:
    """Begin the next life of a slot that renews at return."""
    if s.origins[failure.source].returns:
        begin_life(s, failure.source, failure.slot, failure.round + 1)


def begin_life(s: Scalars, source: int, slot: int, number: int) -> None:
    """Begin a life, of a part of a node when that is back; what a repair left belongs to a life that goes on."""
    if number > RELAPSE:
        return
    divisor = s.origins[source].divisor
    if divisor:
        node = s.nodes[slot // divisor]
        if node.outages and node.place != WITHHELD:
            node.renewals = add_link(s, node.renewals, source, slot, number, 0.0, -1)
            return
    life = state.life_of(s, source, slot, number)
    if s.origins[source].clock == state.BUSY:
        begin_busy(s, new_life(s, slot // divisor, source, slot, number, 0.0), life, s.now)
    elif s.now + life < s.end:
        state.schedule(
            s, s.now + life, order_of(source, slot), state.ON_CANDIDATE, source, slot, number, 0, 0, math.nan
        )


def continue_service(s: Scalars, node: int, source: int, slot: int, number: int, due: float) -> None:
    """Schedule a life by its node's time in service, or park it while the node is down."""
    it = s.nodes[node]
    if it.is_down:
        it.parked = add_link(s, it.parked, source, slot, number, due, -1)
        return
    time = max(due + it.was_down, s.now)
    if time < s.end:
        state.schedule(s, time, order_of(source, slot), state.ON_CANDIDATE, source, slot, number, 0, 0, due)


def go_up(s: Scalars, index: int, now: float) -> None:
    """Begin and go on with what has waited for a node."""
    node = s.nodes[index]
    if s.counts_service:
        node.was_down = node.was_down + now - node.down_since
        node.is_down = False
        link = node.parked
        node.parked = -1
        while link >= 0:
            it = s.link[link]
            continue_service(s, index, it.source, it.slot, it.round, it.due)
            link = it.next
    link = node.renewals
    node.renewals = -1
    while link >= 0:
        it = s.link[link]
        begin_life(s, it.source, it.slot, it.round)
        link = it.next
    resume_hidden(s, index, now)


def remain(s: Scalars, node: int, failure: FailureId, now: float) -> None:
    """Leave the fault behind a failure in its node: it strikes again."""
    origin = s.origins[failure.source]
    if not origin.has_residue:
        return
    slot, number = failure.slot, failure.round
    if origin.divisor == 0 and number < RELAPSE:
        # One of the nodes that an incident took: it strikes again alone, and its slot is the node.
        slot, number = node, number * PARTS + slot
    number += RELAPSE
    begin_hidden(s, node, failure.source, slot, number, relapse_after(s, failure.source, slot, number), now)


def relapse_after(s: Scalars, source: int, slot: int, number: int) -> float:
    """Return how long a fault that a repair left takes to strike again [s]."""
    return state.draw(s, s.origins[source].relapse_after, FailureId(source, slot, number), state.RELAPSE_AFTER)


def begin_hidden(s: Scalars, node: int, source: int, slot: int, number: int, seconds: float, now: float) -> None:
    """Let a hidden fault of a node strike after `seconds` of its clock."""
    index = new_life(s, node, source, slot, number, seconds)
    keep_hidden(s, index)
    if s.origins[source].clock == state.BUSY:
        begin_busy(s, index, seconds, now)
    elif now + seconds < s.end:
        state.schedule(s, now + seconds, order_of(source, slot), state.ON_HIDDEN, index, 0, 0, 0, 0, 0.0)


def keep_hidden(s: Scalars, index: int) -> None:
    """Enter a hidden fault in the list of its node."""
    life = s.lives[index]
    node = s.nodes[life.node]
    node.is_touched = True
    life.next_hidden = node.hidden
    life.is_hidden = True
    node.hidden = index


def drop_hidden(s: Scalars, index: int) -> None:
    """Take a hidden fault out of the list of its node."""
    life = s.lives[index]
    node = s.nodes[life.node]
    life.is_hidden = False
    current = node.hidden
    if current == index:
        node.hidden = life.next_hidden
        return
    while s.lives[current].next_hidden != index:
        current = s.lives[current].next_hidden
    s.lives[current].next_hidden = life.next_hidden


def has_hidden(s: Scalars, node: int, source: int) -> bool:
    """Return whether a node has a hidden fault of a source."""
    index = s.nodes[node].hidden
    while index >= 0:
        if s.lives[index].source == source:
            return True
        index = s.lives[index].next_hidden
    return False


def resume_hidden(s: Scalars, node: int, now: float) -> None:
    """Let hidden faults that came due while their node was down strike some time after its return."""
    link = s.nodes[node].hidden_parked
    s.nodes[node].hidden_parked = -1
    while link >= 0:
        index = s.link[link].life
        link = s.link[link].next
        life = s.lives[index]
        if not life.is_hidden:
            continue
        drop_hidden(s, index)
        if life.round >= RELAPSE:
            number = life.round + RELAPSE
            seconds = relapse_after(s, life.source, life.slot, number)
        else:
            number = life.round + 1
            seconds = state.life_of(s, life.source, life.slot, number)
        begin_hidden(s, node, life.source, life.slot, number, seconds, now)


def cure(s: Scalars, node: int) -> None:
    """Let a node have no hidden faults any more."""
    index = s.nodes[node].hidden
    s.nodes[node].hidden = -1
    while index >= 0:
        life = s.lives[index]
        life.token += 1
        life.is_hidden = False
        drop_life(s, index)
        index = life.next_hidden


# ----------------------------------------
# Pools of nodes that wait.


def renovate(node: Node) -> None:
    """Put a node back to what it is before anything has happened to it."""
    node.is_touched = node.has_clock = node.is_down = False
    node.outages = WITHHELD_OUTAGES if node.home == WITHHELD else 0
    node.failed = node.stay_cause = node.stay_bucket = node.down_cause = 0
    node.stay_since = node.clock_before = node.clock_joined = node.was_down = node.down_since = 0.0
    node.stay_segment = node.earlier = node.later = node.first_life = -1
    node.hidden = node.hidden_parked = node.renewals = node.parked = -1


def fill_pool(s: Scalars, place: int) -> None:
    """Enter the nodes of a pool that begin there."""
    pool, entries, first = s.pools[place], s.entry, s.pools[place].first
    if s.pick != state.LOWEST:
        for index in range(first, first + pool.count):
            push(s, place, index)
        return
    # What is in order is a heap.
    for number in range(pool.count):
        it = entries[place * s.pool_room + number]
        it.time, it.order, it.number, it.item = 0.0, first + number, 0, first + number
    pool.size = pool.count


def change(pool: PoolRecord, delta: int, now: float) -> None:
    """Add `delta` nodes to a pool at the time `now` [s]."""
    pool.area += pool.count * (now - pool.last)
    pool.last = now
    pool.count += delta


def change_down(s: Scalars, delta: int, now: float) -> None:
    """Note that so many more nodes are down."""
    seconds = now - s.down_last
    before = s.down_time[s.down]
    s.down_time[s.down] = seconds if math.isnan(before) else before + seconds
    s.down_area += s.down * seconds
    s.down_last = now
    s.down += delta


def push(s: Scalars, place: int, index: int) -> None:
    """Enter a node in a pool; the caller counts it."""
    pool = s.pools[place]
    if pool.size == s.pool_room:
        raise FullError
    key = 0.0
    if s.pick != state.LOWEST:
        if s.pick == state.LONGEST_IDLE:
            key = float(s.picks)
            s.picks += 1
        elif s.pick == state.RANDOM:
            key = uniform_one(s.pick_key, index, s.picks)
            s.picks += 1
        elif s.pick == state.FEWEST_FAILURES:
            key = float(s.nodes[index].failed)
        s.pool_key[place * s.node_count + index] = key
    state.push_entry(s.entry, place * s.pool_room, pool.size, key, index, 0, index)
    pool.size += 1


def pop(s: Scalars, place: int) -> int:
    """Return the first node that is still in a pool, or -1 if no entry is left."""
    pool = s.pools[place]
    heap = place * s.pool_room
    while pool.size > 0:
        first_key, first = s.entry[heap].time, s.entry[heap].item
        pool.size -= 1
        state.pop_entry(s.entry, heap, pool.size)
        if s.nodes[first].place == place:
            if s.pick == state.LOWEST:
                return first
            if s.pool_key[place * s.node_count + first] == first_key:
                s.pool_key[place * s.node_count + first] = math.nan
                return first
    return -1


def take(s: Scalars, place: int, now: float) -> int:
    """Take a healthy node of a pool, or return -1."""
    pool = s.pools[place]
    if pool.count == 0 or not pool.is_there:
        return -1
    index = pop(s, place)
    change(pool, -1, now)
    s.nodes[index].place = JOB
    return index


def take_many(s: Scalars, count: int, now: float) -> None:
    """Take idle nodes into the list of those that were picked, in rising order."""
    pool = s.pools[IDLE]
    if s.pick == state.LOWEST and pool.size >= count and is_stretch(s, count):
        for index in range(count):
            s.picked[index] = s.entry[index].item
            s.nodes[s.picked[index]].place = JOB
        for index in range(count, pool.size):
            state.copy_entry(s.entry, index, index - count)
        pool.size -= count
        change(pool, -count, now)
        return
    for index in range(count):
        s.picked[index] = take(s, IDLE, now)
    sort(s.picked, count)


def sort(numbers: list[int], count: int) -> None:
    """Put the first of some numbers in rising order: in one run where few are out of it, else by Shell's method."""
    falls = 0
    for index in range(1, count):
        falls += numbers[index - 1] > numbers[index]
    gap = 3 if falls else 1
    while falls > FEW_FALLS and gap < count:
        gap = 3 * gap + 1
    while gap > 1:
        gap //= 3
        for index in range(gap, count):
            number = numbers[index]
            place = index
            while place >= gap and numbers[place - gap] > number:
                numbers[place] = numbers[place - gap]
                place -= gap
            numbers[place] = number


def is_stretch(s: Scalars, count: int) -> bool:
    """Return whether the entries of the idle nodes are in order, and the first ones all here."""
    for index in range(s.pools[IDLE].size):
        node = s.entry[index].item
        if index and s.entry[index - 1].item >= node:
            return False
        if index < count and s.nodes[node].place != IDLE:
            return False
    return True


def move(s: Scalars, origin: int, target: int, count: int, now: float) -> int:
    """Move up to `count` nodes from one pool to another; return how many there were."""
    for moved in range(count):
        index = take(s, origin, now)
        if index < 0:
            return moved
        enter(s, target, index, now)
    return max(count, 0)


def enter(s: Scalars, place: int, index: int, now: float) -> None:
    """Put a node that is nowhere into a pool."""
    s.nodes[index].place = place
    change(s.pools[place], 1, now)
    push(s, place, index)


def hide(s: Scalars, now: float) -> None:
    """Take nodes that were swapped although nobody was blamed out of the pools in which they wait, for a moment."""
    for number in range(s.swaps):
        node = s.nodes[s.swapped[number]]
        s.hidden_in[number] = -1
        if node.place in (SPARE, WARM, IDLE, COLD):
            s.hidden_in[number] = node.place
            change(s.pools[node.place], -1, now)
            node.place = JOB


def show(s: Scalars, now: float) -> None:
    """Put nodes that were hidden back into their pools."""
    for number in range(s.swaps):
        if s.hidden_in[number] >= 0:
            enter(s, s.hidden_in[number], s.swapped[number], now)


def refill(s: Scalars) -> int:
    """Return the pool that a returning node goes to."""
    for index in range(s.pool_count):
        place = s.pool_order[index]
        pool = s.pools[place]
        if pool.refills and pool.count + 1 <= pool.target:
            return place
    return IDLE


def dissolve(s: Scalars, now: float) -> None:
    """Make the former nodes of the job plain idle nodes; their number stays the same."""
    s.is_block = False
    for position in range(s.nodes_needed):
        index = s.seat[position]
        if index >= 0:
            s.seat[position] = -1
            s.lacking[s.missing] = position
            s.missing += 1
            part(s, index, now)
            node = s.nodes[index]
            node.in_job = False
            node.place = IDLE
            push(s, IDLE, index)


def swap(s: Scalars, now: float) -> None:
    """Fill the positions of the job that miss a node, and exchange its nodes for idle ones that are picked before."""
    count = 0
    while count < s.missing or s.pools[IDLE].count:
        index = take(s, IDLE, now)
        if count == s.missing:
            leaving = last_of_job(s)
            if index > leaving:
                enter(s, IDLE, index, now)
                break
            leave(s, leaving, now)
            enter(s, IDLE, leaving, now)
        s.picked[count] = index
        count += 1
    for number in range(count):
        s.missing -= 1
        seat_node(s, s.lacking[s.missing], s.picked[number], now)
    if count and (s.minds_nodes or s.rungs or s.blames_other > 0):
        # Somebody asks who sits where.
        for position in range(s.nodes_needed):
            s.picked[position] = s.seat[position]
        sort(s.picked, s.nodes_needed)
        seat_picked(s, s.nodes_needed, now)


def last_of_job(s: Scalars) -> int:
    """Return the node of the job with the highest number, or -1."""
    while s.highest >= 0 and not s.nodes[s.highest].in_job:
        s.highest -= 1
    return s.highest


def seat_picked(s: Scalars, count: int, now: float) -> None:
    """Put nodes that were picked at the positions of the job, in the order of ranks; one that is there stays."""
    for rank in range(count):
        position, index = s.rank_place[rank], s.picked[rank]
        if s.seat[position] != index:
            s.seat[position] = index
            s.nodes[index].position = position
            if not s.nodes[index].in_job:
                seat_node(s, position, index, now)


def seat_node(s: Scalars, position: int, index: int, now: float) -> None:
    """Put a node that was taken at a position of the job."""
    s.seat[position] = index
    s.highest = max(s.highest, index)
    node = s.nodes[index]
    node.in_job = True
    node.position = position
    if s.uses_lives:
        join(s, index, now)


def leave(s: Scalars, index: int, now: float) -> None:
    """Take a node out of its pool or its job; the caller says where it is from now on."""
    node = s.nodes[index]
    if node.place == JOB:
        if not s.is_holding:
            change(s.pools[IDLE], -1, now)
    else:
        change(s.pools[node.place], -1, now)
    if node.in_job:
        if s.uses_lives:
            part(s, index, now)
        s.seat[node.position] = -1
        s.lacking[s.missing] = node.position
        s.missing += 1
        node.in_job = False


def send_to_repair(s: Scalars, index: int, cause: int, now: float, bucket: int) -> None:
    """Move a node that is down out of its place."""
    leave(s, index, now)
    node = s.nodes[index]
    node.place = REPAIR
    node.stay_since, node.stay_cause, node.stay_segment, node.stay_bucket = now, cause, -1, bucket
    node.earlier, node.later = s.repairing_last, -1
    if s.repairing_last >= 0:
        s.nodes[s.repairing_last].later = index
    else:
        s.repairing_first = index
    s.repairing_last = index
    if bucket == IN_REPAIR:
        node.failed += 1


def charge_stay(s: Scalars, node: Node, now: float) -> None:
    """Charge a node out of service up to `now` [s], phase by phase."""
    table = s.window * BUCKETS
    while node.stay_since < now:
        bucket, end = node.stay_bucket, math.inf
        if node.stay_segment >= 0:
            bucket, end = s.stay[node.stay_segment].bucket, s.stay[node.stay_segment].end
        stop = end if end < now else now
        s.others_table[(table + bucket) * s.causes + node.stay_cause] += (stop - node.stay_since) * s.gpus_per_node
        node.stay_since = stop
        if end <= now:
            node.stay_segment = s.stay[node.stay_segment].next


def add_segment(s: Scalars, node: Node, bucket: int, end: float) -> None:
    """Put a stretch at the end of those of a stay that are known."""
    if s.stays == s.stays_room:
        raise FullError
    index = s.stays
    s.stays += 1
    s.stay[index].bucket, s.stay[index].end, s.stay[index].next = bucket, end, -1
    if node.stay_segment < 0:
        node.stay_segment = index
        return
    last = node.stay_segment
    while s.stay[last].next >= 0:
        last = s.stay[last].next
    s.stay[last].next = index


def bring_back(s: Scalars, index: int, now: float) -> None:
    """Let a node that nothing is open against wait for work again."""
    node = s.nodes[index]
    charge_stay(s, node, now)
    if node.earlier >= 0:
        s.nodes[node.earlier].later = node.later
    else:
        s.repairing_first = node.later
    if node.later >= 0:
        s.nodes[node.later].earlier = node.earlier
    else:
        s.repairing_last = node.earlier
    enter(s, refill(s), index, now)


def settle_nodes(s: Scalars, now: float) -> float:
    """Charge the nodes outside jobs up to `now`; return the node-seconds spent down since the last time."""
    table = s.window * BUCKETS
    for index in range(s.pool_count):
        place = s.pool_order[index]
        pool = s.pools[place]
        change(pool, 0, now)
        bucket = UNALLOCATED if place == IDLE else SPARE_IDLE
        s.others_table[(table + bucket) * s.causes] += pool.area * s.gpus_per_node
        pool.area = 0.0
    s.others_table[(table + UNALLOCATED) * s.causes] += s.withheld * (now - s.withheld_last) * s.gpus_per_node
    s.withheld_last = now
    index = s.repairing_first
    while index >= 0:
        charge_stay(s, s.nodes[index], now)
        index = s.nodes[index].later
    change_down(s, 0, now)
    area = s.down_area
    s.down_area = 0.0
    return area


# ----------------------------------------
# Outages. The nodes of a failure are one, or `count` of the list of members from the place `first` on; -1 for none.


def size_of(count: int) -> int:
    """Return how many nodes a failure has."""
    return 1 if count == 0 else max(count, 0)


def member_of(s: Scalars, first: int, count: int, number: int) -> int:
    """Return one of the nodes of a failure."""
    return first if count == 0 else s.member[first + number]


def take_down(s: Scalars, index: int, cause: int, now: float) -> None:
    """Open an outage of a node."""
    node = s.nodes[index]
    node.is_touched = True
    node.outages += 1
    if node.outages == 1:
        change_down(s, 1, now)
        node.down_since, node.down_cause = now, cause
        if s.counts_service:
            node.is_down = True


def take_out(s: Scalars, failure: FailureId, first: int, count: int) -> None:
    """Take nodes down; those outside jobs leave their place."""
    now = s.now
    cause = failure.source + 1
    s.repairs_begun[cause] += 1
    for number in range(size_of(count)):
        index = member_of(s, first, count, number)
        node = s.nodes[index]
        is_outside = node.outages == 0 and not (node.in_job and s.is_holding)
        take_down(s, index, cause, now)
        if is_outside:
            send_to_repair(s, index, cause, now, s.origins[failure.source].bucket)


def take_to_repair(s: Scalars, failure: FailureId, first: int, count: int, seconds: float) -> None:
    """Take nodes down for a repair of so many `seconds`, from when the job knows if it holds some of them."""
    take_out(s, failure, first, count)
    is_held = False
    for number in range(size_of(count)):
        is_held = is_held or (s.nodes[member_of(s, first, count, number)].in_job and s.is_holding)
    if not is_held:
        state.schedule_failure(s, s.now + seconds, state.RETURN, state.ON_RETURN, failure, first, count, 0.0)
        return
    if s.pendings == s.pendings_room:
        raise FullError
    it = s.pending[s.pendings]
    s.pendings += 1
    it.source, it.slot, it.round = failure.source, failure.slot, failure.round
    it.node, it.count, it.due = first, count, seconds


def begin_repairs(s: Scalars, now: float) -> None:
    """Begin the repairs of all that has struck the nodes of the job: it knows now."""
    for index in range(s.pendings):
        it = s.pending[index]
        state.schedule(
            s, now + it.due, state.RETURN, state.ON_RETURN, it.source, it.slot, it.round, it.node, it.count, 0.0
        )
    s.pendings = 0


def mend(s: Scalars, failure: FailureId, first: int, count: int, now: float) -> None:
    """Let a repair of nodes remove what is wrong with them, or leave it."""
    origin = s.origins[failure.source]
    if origin.mends_nothing or (origin.divisor == 0 and not origin.apart):
        return
    for number in range(size_of(count)):
        index = member_of(s, first, count, number)
        if origin.relapse > 0 and state.mark_at(s, failure, state.RELAPSES, index) < origin.relapse:
            remain(s, index, failure, now)
        else:
            cure(s, index)


def close(s: Scalars, index: int, now: float) -> bool:
    """Close an outage of a node; return whether that brings it back."""
    node = s.nodes[index]
    node.outages -= 1
    if node.outages:
        return False
    change_down(s, -1, now)
    if s.downtimes < s.downtimes_room:
        row = s.downtime[s.downtimes]
        row.node, row.cause, row.start, row.end = index, node.down_cause, node.down_since, now
        s.downtimes += 1
    elif s.downtimes_room:
        raise FullError
    # A node that returned before the job knew of its failure never left its place.
    if node.place == REPAIR:
        bring_back(s, index, now)
    go_up(s, index, now)
    return True

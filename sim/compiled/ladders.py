"""Ladders in the compiled loop: stores of checkpoints with a rhythm each, and recoveries one after another.

As `ettrick.sim.policies.checkpoint.ladder` and `ettrick.sim.policies.recovery.ladder`; the arithmetic of stores is
theirs.
"""

from __future__ import annotations

from ettrick.sim.compiled.state import PROCESSES_KEPT, STORES_KEPT, Scalars
from ettrick.sim.policies.checkpoint.ladder import filled, first_due, since_step, since_stop
from ettrick.sim.policies.checkpoint.stores import (
    TIE,
    PeriodicStalls,
    StoredCheckpoints,
    before,
    clique_of,
    clique_size,
    cut,
    in_flight,
    reach,
    waited,
    without_end,
    work_in,
)
from ettrick.sim.policies.recovery.ladder import SAME_WORK

LOST, REBOOTED, DEAD = 1, 2, 4
"""The state of a position since the job stepped: its node has left, it has started again, its process ended."""

# ----------------------------------------
# The rhythms of the stores, and of work that stops the job next to them.


def grid_of(s: Scalars) -> PeriodicStalls:
    """Return the series."""
    return PeriodicStalls(s.series, s.periods, s.stalls, s.ratios, s.slope, s.spread, s.longest, s.first_periods)


def shelf_of(s: Scalars, index: int) -> StoredCheckpoints:
    """Return what a store holds."""
    it = s.shelves[index]
    return StoredCheckpoints(it.newest, it.checkpoints, it.good, it.draining, it.drain_left, it.is_first)


def put_shelf(s: Scalars, index: int, shelf: StoredCheckpoints) -> None:
    """Note what a store holds."""
    it = s.shelves[index]
    it.newest, it.checkpoints, it.good = shelf.newest, shelf.checkpoints, shelf.good
    it.draining, it.drain_left, it.is_first = shelf.draining, shelf.drain_left, shelf.is_first


def note_progress(s: Scalars) -> None:
    """Note what is in the remote store, and the work beyond that."""
    s.committed = s.shelves[0].newest
    s.at_risk = s.work - s.committed


def find_firsts(s: Scalars) -> None:
    """Work out how long each series steps until it is due, from the end of the stop if there is one [s]."""
    for index in range(s.series):
        is_first = index < s.stores and s.shelves[index].is_first
        s.firsts[index] = first_due(grid_of(s), index, s.since_stop[index], s.in_stop[index], is_first)


def pausing(s: Scalars, left: float) -> float:
    """Return how much periodic work is in what is `left` of the stop [s]: it comes after the saves."""
    most = 0.0
    for index in range(s.stores, s.series):
        if s.in_stop[index]:
            most += s.stalls[index]
    return min(left, most)


def advance_stores(s: Scalars, seconds: float) -> tuple[float, float]:
    """Let the job run for some time; return how much of it was stepping and periodic work [s]."""
    left = s.stall_left
    paused = pausing(s, left)
    if seconds < left:
        for index in range(s.stores):
            put_shelf(s, index, waited(shelf_of(s, index), seconds, s.shelves[index].limit))
        s.stall_left = left - seconds
        paused -= pausing(s, s.stall_left)
        note_progress(s)
        return 0.0, paused
    grid = grid_of(s)
    find_firsts(s)
    stepped, stall_left = reach(grid, s.firsts, seconds - left, s.counts, s.next_in_stop)
    worked = 0.0
    for index in range(s.stores, s.series):
        worked += s.counts[index] * s.stalls[index]
    for index in range(s.series):
        was_due, is_due, count = s.in_stop[index], s.next_in_stop[index], s.counts[index]
        s.since_stop[index] = since_stop(
            grid, index, s.firsts[index], count, s.since_stop[index], stepped, was_due, is_due
        )
        if index < s.stores:
            it = s.shelves[index]
            shelf = filled(
                grid, s.firsts, index, shelf_of(s, index), s.work, left, 1.0, seconds, stepped, count, was_due, is_due,
                it.limit, it.drain,
            )  # fmt: skip
            put_shelf(s, index, shelf)
        s.in_stop[index] = s.next_in_stop[index]
    if s.series > s.stores:
        paused = worked + (paused - pausing(s, stall_left))
    s.work = s.work + stepped
    s.stall_left = stall_left
    note_progress(s)
    return stepped, paused


def time_to_work(s: Scalars, work: float) -> float:
    """Return the time [s] until `work` [s] more healthy seconds have been done; the last stop is not awaited."""
    find_firsts(s)
    return s.stall_left + before(grid_of(s), s.firsts, work)


def save_stores(s: Scalars) -> None:
    """Put everything into the remote store by a save outside the schedule, and keep what was before."""
    s.unsaved_work, s.unsaved_stall_left = s.work, s.stall_left
    for index in range(s.series):
        s.since_stop[s.series + index], s.in_stop[s.series + index] = s.since_stop[index], s.in_stop[index]
        s.in_stop[index] = False
    for index in range(s.stores):
        shelf = shelf_of(s, index)
        put_shelf(s, s.stores + index, shelf)
        if index:
            shelf = StoredCheckpoints(shelf.newest, shelf.checkpoints, shelf.good, 0.0, 0.0, shelf.is_first)
        else:
            shelf = StoredCheckpoints(s.work, min(shelf.checkpoints + 1, s.shelves[0].limit), False, 0.0, 0.0, True)
        put_shelf(s, index, shelf)
    s.since_stop[0] = 0.0
    s.stall_left = 0.0
    note_progress(s)


def undo_save(s: Scalars) -> None:
    """Go back to what was before a save that has been cut off."""
    s.work, s.stall_left = s.unsaved_work, s.unsaved_stall_left
    for index in range(s.series):
        s.since_stop[index], s.in_stop[index] = s.since_stop[s.series + index], s.in_stop[s.series + index]
    for index in range(s.stores):
        put_shelf(s, index, shelf_of(s, s.stores + index))
    note_progress(s)


# ----------------------------------------
# Going back: what the nodes have lost, and which checkpoint is left.


def harm(s: Scalars, position: int, what: int) -> None:
    """Note what has happened to a position."""
    if s.damage[position] == 0:
        s.hurt[s.hurts] = position
        s.hurts += 1
    s.damage[position] |= what


def heal(s: Scalars) -> None:
    """Forget what has happened to the nodes: the job steps."""
    s.is_live = True
    s.swaps = 0
    for index in range(s.hurts):
        s.damage[s.hurt[index]] = 0
    s.hurts = 0


def go_back(s: Scalars, keeps: int) -> None:
    """Go back to the newest step of which every shard survives, given what a plan keeps."""
    damaged = find_lacks(s) if keeps != STORES_KEPT else 0
    last = last_step(s) if keeps == PROCESSES_KEPT and s.peer_load >= 0 and is_held_live(s) else 0.0
    for index in range(s.stores):
        it = s.shelves[index]
        it.passed = 0
        it.is_left = index == 0 or (keeps != STORES_KEPT and it.lost < s.nodes_needed)
        if it.is_left and it.keeps_all:
            put_shelf(s, index, without_end(shelf_of(s, index), s.periods[index]))
    work = choose_step(s, damaged, last)
    cut_shelves(s, keeps, work)
    rewind_series(s, work)
    s.work = work
    s.stall_left = 0.0
    note_progress(s)


def cut_shelves(s: Scalars, keeps: int, work: float) -> None:
    """Let every store hold what is left of it when the job goes back to `work` [s]."""
    for index in range(s.stores):
        it = s.shelves[index]
        is_gone = not it.is_left or (keeps != STORES_KEPT and it.lost > 0)
        shelf = cut(shelf_of(s, index), it.checkpoints if is_gone else it.passed, s.periods[index])
        if it.is_left and shelf.checkpoints and abs(shelf.newest - work) <= TIE * work:
            shelf = StoredCheckpoints(work, shelf.checkpoints, shelf.good, shelf.draining, shelf.drain_left, True)
        put_shelf(s, index, shelf)
        it.is_first = True


def choose_step(s: Scalars, damaged: int, last: float) -> float:
    """Return the work of the newest step that can be read [s]; live replicas hold that of `last` [s], if above 0.

    Newer checkpoints of the stores are passed over, all of them where none can be read.
    """
    s.restore_seconds, s.restore_store = 0.0, 0
    while True:
        newest, is_any = last, last > 0
        for index in range(s.stores):
            if has_more(s, index):
                newest, is_any = max(newest, next_work(s, index)), True
        if not is_any:
            for index in range(s.stores):
                s.shelves[index].passed = s.shelves[index].checkpoints
            return 0.0
        for index in range(s.stores):
            s.shelves[index].holds = has_more(s, index) and next_work(s, index) >= newest * (1 - TIE)
        if read_step(s, damaged, last > 0 and last >= newest * (1 - TIE)):
            return newest
        for index in range(s.stores):
            s.shelves[index].passed += s.shelves[index].holds


def has_more(s: Scalars, index: int) -> bool:
    """Return whether a store that is left holds a checkpoint that has not been passed over."""
    return s.shelves[index].is_left and s.shelves[index].passed < s.shelves[index].checkpoints


def next_work(s: Scalars, index: int) -> float:
    """Return the work in the newest checkpoint of a store that has not been passed over [s]."""
    return work_in(shelf_of(s, index), s.shelves[index].passed, s.periods[index])


def rewind_series(s: Scalars, work: float) -> None:
    """Let every series be where it was when the job had come to `work` [s]; the stores are there already."""
    back = s.work - work
    for index in range(s.series):
        if work <= 0 or (index < s.stores and s.shelves[index].newest == work):
            s.since_stop[index] = 0.0
        else:
            s.since_stop[index] = since_step(grid_of(s), index, s.since_stop[index], s.in_stop[index], back)
        s.in_stop[index] = False


def last_step(s: Scalars) -> float:
    """Return the work without the step in flight [s], which live replicas hold."""
    if s.stall_left > 0:
        return s.work
    work = s.work - in_flight(s.since_stop[0], s.step_time)
    for index in range(s.stores):
        work = max(work, s.shelves[index].newest)
    return work if work > TIE * s.work else 0.0


def is_held_live(s: Scalars) -> bool:
    """Return whether some replica has lost nothing and still holds the state of training."""
    if not s.is_live or s.replicas < 2:
        return False
    return count_replicas(s, -1) < s.replicas


def count_replicas(s: Scalars, store: int) -> int:
    """Return how many replicas have a position that lacks its shard in a store; for -1, that anything has happened to.

    Those that hand over their state are of whole nodes; those that hold a checkpoint each share all nodes.
    """
    s.stamp += 1
    count = 0
    for number in range(s.hurts):
        position = s.hurt[number]
        if store < 0:
            replica = position // (s.nodes_needed // s.replicas)
        elif s.lacks[position] >> store & 1:
            replica = position * s.replicas // s.nodes_needed
        else:
            continue
        if s.stamped[replica] != s.stamp:
            s.stamped[replica] = s.stamp
            count += 1
    return count


def find_lacks(s: Scalars) -> int:
    """Find out which positions have no shard left in which store; return how many have lost anything."""
    damaged = 0
    for number in range(s.hurts):
        position = s.hurt[number]
        s.lacks[position] = 0
        if s.damage[position] & (LOST | REBOOTED):
            damaged += 1
    for index in range(1, s.stores):
        lose_shards(s, index)
        it = s.shelves[index]
        if it.every_replica and it.lost and count_replicas(s, index) < s.replicas:
            it.lost = 0
            for number in range(s.hurts):
                s.lacks[s.hurt[number]] &= ~(1 << index)
    return damaged


def lose_shards(s: Scalars, index: int) -> None:
    """Note which positions have no shard left in a store on nodes; that of a clique is lost with its last member."""
    it = s.shelves[index]
    it.lost = 0
    if it.clique:
        count_gone(s, index)
    for number in range(s.hurts):
        position = s.hurt[number]
        is_lost = s.damage[position] & it.takes > 0
        if is_lost and it.clique:
            clique = clique_of(position, s.nodes_needed, it.clique, it.jump)
            is_lost = s.gone[clique] >= clique_size(clique, s.nodes_needed, it.clique, it.jump)
        if is_lost:
            s.lacks[position] |= 1 << index
            it.lost += 1


def count_gone(s: Scalars, index: int) -> None:
    """Count how many members each clique of a store has lost."""
    it = s.shelves[index]
    for number in range(s.hurts):
        s.gone[clique_of(s.hurt[number], s.nodes_needed, it.clique, it.jump)] = 0
    for number in range(s.hurts):
        if s.damage[s.hurt[number]] & it.takes:
            s.gone[clique_of(s.hurt[number], s.nodes_needed, it.clique, it.jump)] += 1


def read_step(s: Scalars, damaged: int, with_peer: bool) -> bool:
    """Note how long the step that some stores hold is read, each shard from the quickest; return whether all are left.

    Of `damaged` positions nodes have lost something.
    """
    holders = 0
    for index in range(s.stores):
        if s.shelves[index].holds:
            holders |= 1 << index
    slowest, slowest_at = -1.0, 0
    for number in range(s.hurts if damaged else 0):
        position = s.hurt[number]
        if not s.damage[position] & (LOST | REBOOTED):
            continue
        if not with_peer and s.lacks[position] & holders == holders:
            return False
        seconds, best = quickest(s, holders & ~s.lacks[position], with_peer, s.damage[position])
        if seconds > slowest or (seconds == slowest and best < slowest_at):
            slowest, slowest_at = seconds, best
    if damaged < s.nodes_needed:
        # Nodes that have lost nothing all read alike.
        seconds, best = quickest(s, holders, with_peer, 0)
        if seconds > slowest:
            slowest, slowest_at = seconds, best
    s.restore_seconds, s.restore_store = slowest, slowest_at
    return True


def quickest(s: Scalars, holders: int, with_peer: bool, damage: int) -> tuple[float, int]:
    """Return how long a node reads from the quickest of some stores [s], and which that is."""
    best, at = -1.0, -1
    for index in range(s.stores):
        if holders >> index & 1:
            it = s.shelves[index]
            seconds = it.fetch if damage & it.takes else it.load
            if at < 0 or seconds < best:
                best, at = seconds, index
    if with_peer and (at < 0 or s.peer_load < best):
        best, at = s.peer_load, s.stores
    return best, at


# ----------------------------------------
# Which recovery is attempted.


def first_plan(s: Scalars) -> int:
    """Return the plan of the first rung that applies, from where the incident is."""
    work = s.committed + s.at_risk
    if work > s.furthest + SAME_WORK:
        if s.resets:
            for index in range(s.rungs):
                s.tries[index] = 0
        s.in_vain, s.furthest = 0, work
    if 0 <= s.no_progress <= s.in_vain:
        return escalate(s)
    s.in_vain += 1
    in_a_row = s.evicts[s.origins[s.mark_source].fault]
    s.joiners, s.is_first_lost = s.missing, s.damage[s.first_position] & LOST > 0
    if in_a_row:
        # Whether a rung can bear the loss is asked of who is left.
        first = first_evicted(s, in_a_row)
        for position in range(first, min(first + in_a_row, s.nodes_needed)):
            s.joiners += s.seat[position] >= 0
            s.is_first_lost = s.is_first_lost or position == s.first_position
    return climb(s, s.rung if s.attempt > 1 else 0, 2 if in_a_row else 1 if s.joiners else 0)


def climb(s: Scalars, start: int, kind: int) -> int:
    """Return the plan of the first rung from `start` on that applies; 2 evicts and swaps, 1 swaps, 0 does neither."""
    fault = s.origins[s.mark_source].fault
    for index in range(start, s.rungs):
        it = s.rung_of[index]
        is_for = it.handles >> fault & 1 and not (it.except_first and s.is_first_lost)
        if is_for and (it.budget < 0 or s.tries[index] < it.budget):
            s.tries[index] += 1
            s.rung = index
            return s.rung_plans[3 * (index * s.classes + fault) + kind]
    return escalate(s)


def escalate(s: Scalars) -> int:
    """Return the plan that waits until an operator restarts the job, with all budgets new."""
    for index in range(s.rungs):
        s.tries[index] = 0
    s.rung, s.in_vain = 0, 0
    return s.exhausted_plan


def first_evicted(s: Scalars, in_a_row: int) -> int:
    """Return the first position that leaves with those that failed; it is one of a row."""
    first = s.nodes_needed
    for index in range(s.missing):
        first = min(first, s.lacking[index])
    return first // in_a_row * in_a_row if s.missing else 0

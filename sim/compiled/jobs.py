"""The job in the compiled loop: charging its time, following its plans, giving it nodes.

As `ettrick.sim.engine.jobs`, `ettrick.sim.engine.interruptions`, `ettrick.sim.engine.progress` and
`ettrick.sim.engine.ledger`, with one group of nodes that steps at the healthy pace or not at all. Nothing here calls
itself: a function that gives the job another plan only says so, and :func:`proceed` goes on with it.
"""

from __future__ import annotations

import math

from ettrick.sim.compiled import nodes, repairs, state
from ettrick.sim.compiled.ladders import (
    DEAD,
    LOST,
    REBOOTED,
    advance_stores,
    climb,
    first_evicted,
    first_plan,
    go_back,
    harm,
    heal,
    save_stores,
    time_to_work,
    undo_save,
)
from ettrick.sim.compiled.state import FailureId, FullError, Origin, Scalars, StepRecord, Time
from ettrick.sim.engine.kernel import order_of
from ettrick.sim.policies.checkpoint.periodic import Periodic, advance, time_to
from ettrick.sim.policies.contracts import Bucket, CheckpointState
from ettrick.sim.policies.recovery.phases import MOST
from ettrick.sim.quantiles import quantile

CHECKPOINT_STALL, LOST_WORK, DETECTION, RESCHEDULE, RESTORING, STARVED, QUEUED, DEGRADED, AUXILIARY, GIVEN_UP = map(
    int, (
        Bucket.CHECKPOINT_STALL, Bucket.LOST_WORK, Bucket.DETECTION, Bucket.RESCHEDULE, Bucket.RESTORE, Bucket.STARVED,
        Bucket.QUEUED, Bucket.DEGRADED, Bucket.AUXILIARY, Bucket.GIVEN_UP,
    ),
)  # fmt: skip


NOT_YET = -math.inf
"""End of the job that is not worked out, because an event that looks again comes before."""

# ----------------------------------------
# Charging: buckets x causes, and the work that a failure may still take.


def charge_step(s: Scalars, work: float, stalled: float, at_risk: float) -> None:
    """Charge stepping; see `ettrick.sim.engine.ledger.Account.step`."""
    table = s.window * nodes.BUCKETS * s.causes
    s.table[table] += work * s.gpus
    s.table[table + CHECKPOINT_STALL * s.causes] += stalled
    if s.pieces and s.piece[s.pieces - 1].window == s.window:
        s.piece[s.pieces - 1].work += work
    else:
        s.piece[s.pieces].work, s.piece[s.pieces].window = work, s.window
        s.pieces += 1
    if s.pieces == 1:
        s.piece[0].work = at_risk
    else:
        forget(s, at_risk)


def forget(s: Scalars, at_risk: float) -> None:
    """Keep only the newest `at_risk` seconds of work."""
    first = s.pieces
    while first > 0 and at_risk > 0:
        first -= 1
        piece = s.piece[first]
        if piece.work > at_risk:
            piece.work = at_risk
        at_risk -= piece.work
    for index in range(first, s.pieces):
        s.piece[index - first].work, s.piece[index - first].window = s.piece[index].work, s.piece[index].window
    s.pieces -= first


def lose(s: Scalars, work: float, cause: int) -> None:
    """Move the newest `work` seconds from productive to lost work."""
    while work > 0 and s.pieces:
        piece = s.piece[s.pieces - 1]
        part = 1.0 if work >= piece.work else work / piece.work
        lost = piece.work * part
        table = piece.window * nodes.BUCKETS * s.causes
        s.table[table] -= lost * s.gpus
        s.table[table + LOST_WORK * s.causes + cause] += lost * s.gpus
        if part < 1.0:
            piece.work -= lost
            return
        work -= piece.work
        s.pieces -= 1


def settle(s: Scalars, now: float) -> None:
    """Charge the job up to `now`."""
    if s.run_at <= now:
        wait_out(s, s.run_at)
        begin_run(s)
    if now <= s.since:
        return
    if not s.is_running:
        wait_out(s, now)
        return
    seconds = now - s.since
    if s.series:
        stepped, paused = advance_stores(s, seconds)
        charge_step(s, stepped, max(seconds - stepped - paused, 0.0) * s.gpus, s.at_risk)
        s.table[(s.window * nodes.BUCKETS + AUXILIARY) * s.causes] += paused * s.gpus
    else:
        saved, stepped = advance(saves_of(s), state_of(s), 1.0, s.step_time, seconds)
        put_state(s, saved)
        charge_step(s, stepped, max(seconds - stepped, 0.0) * s.gpus, s.at_risk)
    s.running_seconds += seconds
    s.node_seconds += seconds * (s.positions - s.missing)
    if s.missing:
        s.absent[DEGRADED] += seconds * s.missing * s.gpus_per_node
    s.since = now


def wait_out(s: Scalars, now: float) -> None:
    """Charge the job, which waits, up to `now`, phase by phase."""
    absent = s.missing * s.gpus_per_node if s.is_holding else s.gpus
    time = s.since
    index = s.segment
    while time < now:
        bucket, end = s.phase[index].bucket, s.phase[index].end
        stop = end if end < now else now
        s.table[(s.window * nodes.BUCKETS + bucket) * s.causes + s.cause] += (stop - time) * s.gpus
        if absent:
            s.absent[bucket] += (stop - time) * absent
        if bucket == CHECKPOINT_STALL:
            # The save before a stop that is known beforehand.
            s.running_seconds += stop - time
            s.node_seconds += (stop - time) * (s.positions - s.missing)
        time = stop
        if end <= now:
            index += 1
    s.segment = index
    s.since = now


def saves_of(s: Scalars) -> Periodic:
    """Return the rhythm of saves."""
    return Periodic(s.interval, s.stall, s.drain, s.load, (0.0, 0.0))


def state_of(s: Scalars) -> CheckpointState:
    """Return what is saved."""
    return CheckpointState(s.committed, s.at_risk, s.position, s.draining, s.drain_left, s.stall_left, s.is_first)


def put_state(s: Scalars, saved: CheckpointState) -> None:
    """Note what is saved."""
    s.committed, s.at_risk, s.position = saved.committed, saved.at_risk, saved.position
    s.draining, s.drain_left, s.stall_left = saved.draining, saved.drain_left, saved.stall_left
    s.is_first = saved.is_first


# ----------------------------------------
# From phase to phase.


def schedule_phase(s: Scalars, kind: int, time: float) -> None:
    """Let the job go on at `time` [s], unless its plan is given up before."""
    state.schedule(s, time, state.PHASE, kind, 0, s.epoch, 0, 0, 0, 0.0)


def expose(s: Scalars, now: float, exposed: int) -> None:
    """Say who can fail from now on: the processes of the job, its nodes, both or none."""
    if s.exposed == exposed:
        return
    s.exposed = exposed
    on_nodes, on_processes = exposed in (state.BOTH, state.NODES), exposed in (state.BOTH, state.PROCESSES)
    nodes.turn(s, nodes.PROCESS_CLOCK, now, on_processes)
    nodes.arm(s, nodes.PROCESS_CLOCK, now)
    nodes.turn(s, nodes.HELD_CLOCK, now, on_nodes)
    nodes.arm(s, nodes.HELD_CLOCK, now)
    nodes.turn(s, nodes.BUSY_CLOCK, now, on_nodes and on_processes)
    nodes.arm(s, nodes.BUSY_CLOCK, now)
    if s.waits and on_nodes:
        for index in range(s.waits):
            it = s.wait[index]
            order = order_of(it.source, it.slot)
            state.schedule(s, now, order, state.ON_DEFERRED, it.source, it.slot, it.round, 0, 0, it.until)
        s.waits = 0


def wait(s: Scalars, bucket: int, end: float, now: float, exposed: int) -> None:
    """Put the job, which is settled, into one waiting phase."""
    s.phase[0].bucket, s.phase[0].end = bucket, end
    s.segment = 0
    s.is_running = False
    expose(s, now, exposed)


def stop(s: Scalars, now: float) -> None:
    """Charge the job and void what it was going to do."""
    settle(s, now)
    s.epoch += 1
    s.run_at = math.inf
    s.finish_at = math.inf
    if s.saved_at > now:
        # A save that is cut off is void.
        if s.series:
            undo_save(s)
        else:
            s.committed, s.at_risk, s.position = s.unsaved_committed, s.unsaved_at_risk, s.unsaved_position
            s.draining, s.drain_left, s.stall_left = s.unsaved_draining, s.unsaved_drain_left, s.unsaved_stall_left
            s.is_first = s.unsaved_is_first
        s.saved_at = now
    s.is_starved = False


def begin_run(s: Scalars) -> None:
    """Close the incident; from now on the job steps."""
    if s.is_reading:
        s.restored[s.read_store] += 1
        s.is_reading = False
    heal(s)
    s.incident = 0
    s.attempt = 0
    s.run_at = math.inf
    s.is_running = True


def expect_finish(s: Scalars, start: float) -> None:
    """Say when a job with a fixed amount of work ends if it steps from `start` on undisturbed."""
    todo = max(s.target - (s.committed + s.at_risk), 0.0)
    if start + todo > s.looks_at:
        s.finish_at = NOT_YET
        return
    s.finish_at = start + time_to_do(s, todo)
    if s.finish_at < s.looks_at:
        s.looks_at = s.finish_at
        state.schedule(s, s.looks_at, state.PHASE, state.ON_LOOK, 0, 0, 0, 0, 0, s.looks_at)


def follow(s: Scalars, plan: int, now: float) -> None:
    """Start a plan of the scenario, with a save before it if the job knew beforehand; see `proceed`."""
    first, count = s.plans[plan].first, s.plans[plan].count
    takes_nodes = False
    for index in range(count):
        takes_nodes = takes_nodes or s.templates[first + index].kind in (state.ACQUIRE, state.REQUEUE)
    s.steps = 0
    if s.ready_at > now and not takes_nodes:
        # Nodes that were taken before this failure are not there yet, even if it took none itself.
        add_step(s, s.any_plan)
    if s.saves:
        s.saves = False
        add_step(s, s.save_plan)
    for index in range(count):
        add_step(s, first + index)
    begin_plan(s, now)


def add_step(s: Scalars, template: int) -> None:
    """Put a step of the scenario's plans at the end of the plan of the job."""
    s.current[s.steps] = template
    s.steps += 1


def begin_plan(s: Scalars, now: float) -> None:
    """Begin the plan of the job. What it gives up is lost now, not when the restore comes."""
    s.step = 0
    s.is_called = False
    for index in range(s.steps):
        step = s.templates[s.current[index]]
        if step.kind == state.SAVE:
            s.saved_at = now + (s.stall + s.drain)
            if s.series:
                save_stores(s)
                continue
            s.unsaved_committed, s.unsaved_at_risk, s.unsaved_position = s.committed, s.at_risk, s.position
            s.unsaved_draining, s.unsaved_drain_left, s.unsaved_stall_left = s.draining, s.drain_left, s.stall_left
            s.unsaved_is_first = s.is_first
            put_state(s, CheckpointState(s.committed + s.at_risk, 0.0, 0.0, 0.0, 0.0, 0.0, True))
        elif step.kind == state.EVICT:
            first = first_evicted(s, step.in_a_row)
            for position in range(first, min(first + step.in_a_row, s.nodes_needed)):
                harm(s, position, LOST)
        elif step.kind in (state.REQUEUE, state.RESTORE):
            roll_back(s, state.STORES_KEPT if step.kind == state.REQUEUE else step.keeps)
            return


def roll_back(s: Scalars, keeps: int) -> None:
    """Go back to the newest durable save, and charge the loss to the incident's first failure."""
    before = s.committed + s.at_risk
    if s.series:
        go_back(s, keeps)
    else:
        s.restore_seconds = s.load if s.committed > 0 else 0.0
        put_state(s, CheckpointState(s.committed, 0.0, 0.0, 0.0, 0.0, 0.0, True))
    s.is_live = s.is_live and s.restore_store == s.stores and s.series > 0
    lost = before - (s.committed + s.at_risk)
    if lost > 0:
        lose(s, lost, s.incident if s.incident else s.cause)


def proceed(s: Scalars, now: float) -> None:
    """Carry out the steps of the plan until one has to wait."""
    while s.step < s.steps:
        step = s.templates[s.current[s.step]]
        s.step += 1
        if step.kind == state.RUN:
            begin_run(s)
            expose(s, now, state.BOTH)
            if s.target < math.inf:
                expect_finish(s, now)
            return
        if step.kind == state.ACQUIRE:
            if acquire(s, step, now):
                return
        elif step.kind == state.REQUEUE:
            if requeue(s, step, now):
                return
        elif step.kind == state.EVICT:
            evict(s, step, now)
        elif pause(s, now):
            return


def time_of(s: Scalars, step: StepRecord) -> float:
    """Return how long a step takes [s], and add by how much that is above the mean to what the job has drawn."""
    total, above, usual = 0.0, 0.0, 0.0
    for index in range(step.first_time, step.first_time + step.time_count):
        time = s.times[index]
        seconds, mean = draw_time(s, time)
        total += seconds
        usual += mean
        if time.law >= 0:
            above += seconds - mean
    if step.kind != state.REQUEUE:
        s.excess += above * step.scale
    elif total < math.inf:
        s.excess += (total - usual) * step.scale
    if step.rung >= 0:
        rung = s.rung_of[step.rung]
        total += min(rung.backoff * 2.0 ** min(max(s.tries[step.rung], 1) - 1, 1000), rung.most_backoff)
    return total * step.scale


def draw_time(s: Scalars, time: Time) -> tuple[float, float]:
    """Return a time and its mean [s]."""
    if time.law < 0:
        return time.seconds, time.mean
    number = state.mark(s, FailureId(s.mark_source, s.mark_slot, s.mark_round), time.purpose)
    draws = s.joiners if time.draws < 0 else time.draws
    if draws > 1:
        number = min(number ** (1 / draws), MOST)
    mean = time.mean
    if time.draws < 0:
        if draws > s.most_joiners:
            raise FullError
        mean = s.means[time.first_mean + draws - 1]
    return quantile(s.laws, time.law, number) * time.factor, mean


def wait_of(s: Scalars, step: StepRecord, begin: float) -> tuple[int, float]:
    """Return the bucket of a step in which the job waits, and how long that takes from `begin` on [s]."""
    if step.kind == state.STALL:
        return step.bucket, time_of(s, step)
    if step.kind == state.SAVE:
        return CHECKPOINT_STALL, s.stall + s.drain
    if s.restore_seconds > 0:
        s.is_reading, s.read_store = True, s.restore_store
    is_waiting = s.store_back > begin and s.restore_store == 0 and s.committed + s.at_risk > 0
    return RESTORING, s.restore_seconds + (s.store_back - begin if is_waiting else 0.0)


def pause(s: Scalars, now: float) -> bool:
    """Wait through the step before this one and the timed steps after it of the same exposure."""
    step = s.templates[s.current[s.step - 1]]
    exposed = step.exposed
    end = now
    count = 0
    following = -1
    while True:
        bucket, seconds = wait_of(s, step, end)
        if seconds > 0:
            end += seconds
            s.phase[count].bucket, s.phase[count].end = bucket, end
            count += 1
        if s.step == s.steps:
            following = -1
            break
        step = s.templates[s.current[s.step]]
        following = step.kind
        if following not in (state.STALL, state.SAVE, state.RESTORE) or step.exposed != exposed:
            break
        s.step += 1
    if not count:
        return False
    s.is_running = False
    s.segment = 0
    expose(s, now, exposed)
    if exposed == state.BOTH and following == state.RUN:
        # Nothing is decided when the waiting ends: no event, settle() turns it into running.
        s.run_at = end
        if s.target < math.inf:
            s.counts_steps = True
            expect_finish(s, end)
        return True
    schedule_phase(s, state.ON_PHASE_END, end)
    return True


def requeue(s: Scalars, step: StepRecord, now: float) -> bool:
    """Give the nodes back; after the delay the job enters the queue. Return whether it waits."""
    stop(s, now)
    delay = time_of(s, step)
    roll_back(s, state.STORES_KEPT)
    release(s, now)
    if delay == math.inf:
        s.given_up = now
    wait(s, RESCHEDULE if delay < math.inf else GIVEN_UP, math.inf, now, state.NO)
    schedule_phase(s, state.ON_ELIGIBLE, now + delay)
    return True


# ----------------------------------------
# Nodes for the job: in its place, or from the queue.


def release(s: Scalars, now: float) -> None:
    """Make the nodes of the job idle; those picked by number stay at its positions."""
    s.is_holding = False
    nodes.change(s.pools[nodes.IDLE], s.nodes_needed - s.missing, now)
    s.is_block = True
    if s.pick != state.LOWEST:
        nodes.dissolve(s, now)


def acquire(s: Scalars, step: StepRecord, now: float) -> bool:
    """Take nodes; return whether the job waits because there are too few, or until they are ready."""
    if replace(s, step, 0, now):
        return await_nodes(s, step, now)
    if step.timeout <= 0 and step.otherwise != -1:
        take_way_out(s, step, now)
        return False
    s.is_starved = True
    wait(s, STARVED, math.inf, now, step.exposed)
    if step.timeout < math.inf:
        schedule_phase(s, state.ON_TIMEOUT, now + step.timeout)
    return True


def take_way_out(s: Scalars, step: StepRecord, now: float) -> None:
    """Follow the plan of a job that has waited for nodes in vain."""
    follow(s, climb(s, s.rung + 1, 1) if step.otherwise == state.NEXT_RUNG else step.otherwise, now)


def replace(s: Scalars, step: StepRecord, may_miss: int, now: float) -> bool:
    """Give the job nodes until it misses no more than `may_miss`; return whether there were enough."""
    if s.swaps:
        nodes.hide(s, now)
        is_enough = take_missing(s, step, may_miss, now)
        nodes.show(s, now)
        if is_enough:
            return True
    return take_missing(s, step, may_miss, now)


def take_missing(s: Scalars, step: StepRecord, may_miss: int, now: float) -> bool:
    """Give the job nodes of the pools until it misses no more than `may_miss`; return whether there were enough."""
    if s.missing > 1:
        # Replacements come in the order of their numbers.
        nodes.sort(s.lacking, s.missing)
        for index in range(s.missing // 2):
            mirror = s.missing - 1 - index
            s.lacking[index], s.lacking[mirror] = s.lacking[mirror], s.lacking[index]
    while s.missing > may_miss:
        index, place, pools = -1, -1, step.from_pools
        while index < 0 and pools:
            place = (pools & 15) - 1
            pools >>= 4
            index = nodes.take(s, place, now)
        if index < 0:
            return False
        is_alone = place in (nodes.WARM, nodes.COLD) and get_ready(s, place, now)
        s.missing -= 1
        nodes.seat_node(s, s.lacking[s.missing], index, now)
        if is_alone and (step.fill or s.missing > may_miss):
            s.step -= 1
            return True
    if step.fill:
        fill_spares(s, now)
    return True


def get_ready(s: Scalars, place: int, now: float) -> bool:
    """Note when a node of a reserve will be there; return whether the next one is asked for only then."""
    pool = s.pools[place]
    s.is_called = True
    if pool.one_by_one:
        s.ready_at = max(s.ready_at, now) + pool.delay
    else:
        s.ready_at = max(s.ready_at, now + pool.delay)
    return pool.one_by_one and pool.delay > 0


def fill_spares(s: Scalars, now: float) -> None:
    """Fill the hot spares up: from the idle nodes, and from the cold ones if those were called upon anyway."""
    spare = s.pools[nodes.SPARE]
    nodes.move(s, nodes.IDLE, nodes.SPARE, spare.target - spare.count, now)
    while s.is_called and spare.count < spare.target and nodes.move(s, nodes.COLD, nodes.SPARE, 1, now):
        if get_ready(s, nodes.COLD, now):
            s.step -= 1
            return


def await_nodes(s: Scalars, step: StepRecord, now: float) -> bool:
    """Wait until all nodes that were taken are ready; return whether there is anything to wait for."""
    if s.ready_at <= now:
        return False
    wait(s, STARVED, s.ready_at, now, step.exposed)
    schedule_phase(s, state.ON_PHASE_END, s.ready_at)
    return True


def offer(s: Scalars, now: float) -> None:
    """Offer nodes that have become free to the job: it lacks some, or is in the queue."""
    if s.is_starved:
        settle(s, now)
        step = s.templates[s.current[s.step - 1]]
        if replace(s, step, 0, now):
            s.is_starved = False
            s.epoch += 1
            if not await_nodes(s, step, now):
                proceed(s, now)
    if serve_queue(s, now):
        proceed(s, now)


def enter_queue(s: Scalars, now: float) -> None:
    """Let the job wait in the queue, or start it at once."""
    s.is_queued = True
    if serve_queue(s, now):
        proceed(s, now)


def serve_queue(s: Scalars, now: float) -> bool:
    """Start the job if it is in the queue and there are nodes enough; return whether it has a plan now."""
    if not s.is_queued:
        return False
    # Hot spares are kept for restarts: it fits in addition to all spares, so that it is never short of more than are
    # out.
    short = s.nodes_needed - s.pools[nodes.IDLE].count
    if 0 < short <= s.pools[nodes.SPARE].count:
        nodes.move(s, nodes.SPARE, nodes.IDLE, short, now)
    if s.nodes_needed > s.pools[nodes.IDLE].count:
        return False
    s.is_queued = False
    settle(s, now)
    s.is_holding = True
    if s.is_block:
        s.is_block = False
        nodes.change(s.pools[nodes.IDLE], s.missing - s.nodes_needed, now)
    if s.missing < s.nodes_needed:
        nodes.swap(s, now)
    else:
        # Neighbours in rank sit on neighbouring nodes.
        nodes.take_many(s, s.missing, now)
        s.missing = 0
        nodes.seat_picked(s, s.nodes_needed, now)
    if math.isnan(s.start):
        s.start = now
    s.mark_source, s.mark_slot, s.mark_round = s.sources, s.starts, 0
    s.starts += 1
    s.joiners = s.nodes_needed
    follow(s, s.start_plan, now)
    return True


# ----------------------------------------
# What a failure does to the job.


def hit(s: Scalars, failure: FailureId, now: float, latency: float) -> None:
    """Let a failure hit the job, which knows of it after `latency` [s]."""
    cause = failure.source + 1
    origin = s.origins[failure.source]
    is_running = s.is_running or s.run_at <= now
    count_interruption(s, cause, is_running, latency)
    if origin.store_out >= 0:
        s.store_back = max(s.store_back, now + state.draw(s, origin.store_out, failure, state.STORE_OUT))
    takes_nodes = origin.away >= 0
    if s.is_detecting and not takes_nodes:
        reboot(s, origin)
        # The incident is already open: whatever is found first stops the wait.
        if now + latency < s.detect_at:
            s.epoch += 1
            expect_detection(s, now + latency)
        return
    is_saving = s.saved_at > now
    # A save that is cut off by somebody who waits for one begins again; who takes no nodes has waited for it.
    s.saves = takes_nodes and (is_running or is_saving) and s.stall + s.drain <= state.notice_of(s, failure)
    is_leaving = is_saving and is_taken_away(s, s.fail_source)
    stop(s, now)
    reboot(s, origin)
    s.incident = s.incident or cause
    s.cause = cause
    if takes_nodes or not is_leaving:
        # Who was saving before giving its nodes back gives them back all the same.
        s.fail_source, s.fail_slot, s.fail_round = failure.source, failure.slot, failure.round
    if latency > 0:
        s.is_detecting = True
        # Where no process ran, none runs until somebody knows.
        wait(s, DETECTION, math.inf, now, state.NODES if s.exposed == state.NODES else state.BOTH)
        expect_detection(s, now + latency)
    else:
        s.is_running = False
        answer(s, now)


def count_interruption(s: Scalars, cause: int, is_running: bool, latency: float) -> None:
    """Count a failure that hits the job: it disrupts stepping, or becomes one with what has stopped that before."""
    s.interrupted[cause] += 1
    if is_running:
        s.disrupted[cause] += 1
        s.latencies[cause] += latency
    else:
        s.merged += 1


def is_taken_away(s: Scalars, source: int) -> bool:
    """Return whether somebody takes the nodes away by a source; there may be none (-1)."""
    return source >= 0 and s.origins[source].away >= 0


def expect_detection(s: Scalars, time: float) -> None:
    """Let the job know of its incident at `time` [s], unless it does before."""
    s.detect_at = time
    schedule_phase(s, state.ON_DETECTED, time)


def save_before(s: Scalars, cause: int, now: float, strike: float) -> float:
    """Let the job save if it steps and that is over by `strike` [s]; return when it has saved [s]."""
    if s.saved_at > now:
        return s.saved_at if s.saved_at <= strike else now
    if not (s.is_running or s.run_at <= now) or now + (s.stall + s.drain) > strike:
        return now
    settle(s, now)
    todo = max(s.target - (s.committed + s.at_risk), 0.0)
    if todo < math.inf and now + time_to_do(s, todo) <= strike:
        return now
    stop(s, now)
    s.cause = cause
    s.fail_source = -1
    follow(s, s.saving_plan, now)
    proceed(s, now)
    return s.saved_at


def time_to_do(s: Scalars, work: float) -> float:
    """Return the time [s] until so much work [s] has been done."""
    return time_to_work(s, work) if s.series else time_to(saves_of(s), state_of(s), s.step_time, work)


def reboot(s: Scalars, origin: Origin) -> None:
    """Let all nodes of the job start again after a failure of the job as a whole that does so."""
    if origin.of_job and origin.reboots and s.minds_nodes:
        for position in range(s.nodes_needed):
            harm(s, position, REBOOTED)
        s.is_live = False


def answer(s: Scalars, now: float) -> None:
    """Take the nodes that are down away from the job and follow the plan of the recovery."""
    s.is_detecting = False
    remove_victims(s, now)
    s.attempt += 1
    s.mark_source, s.mark_slot, s.mark_round = s.fail_source, s.fail_slot, s.fail_round
    if s.minds_nodes:
        for index in range(s.missing):
            harm(s, s.lacking[index], LOST)
    away = s.origins[s.fail_source].away
    if away >= 0:
        # Nothing has failed that the recovery would have to know of.
        time = s.times[s.templates[s.plans[s.away_plan].first].first_time]
        time.seconds = time.mean = state.draw(s, away, FailureId(s.fail_source, s.fail_slot, s.fail_round), state.AWAY)
        follow(s, s.away_plan, now)
    elif s.rungs:
        follow(s, first_plan(s), now)
    else:
        follow(s, s.swap_plan if s.missing else s.plain_plan, now)
    proceed(s, now)


def remove_victims(s: Scalars, now: float) -> None:
    """Send the suspects that are still down to repair."""
    for index in range(s.suspects):
        it = s.suspect[index]
        failure = FailureId(it.source, it.slot, it.round)
        origin = s.origins[it.source]
        if origin.by_course:
            repairs.diagnose(s, it.node, failure, now)
        elif s.nodes[it.node].outages and s.nodes[it.node].in_job:
            cause = s.nodes[it.node].down_cause
            nodes.send_to_repair(s, it.node, cause, now, s.origins[cause - 1].bucket)
        if s.minds_nodes and s.nodes[it.node].in_job and (origin.reboots or origin.ends_rank):
            # It stays, with what the failure has left of it.
            what = (REBOOTED if origin.reboots else 0) | (DEAD if origin.ends_rank else 0)
            harm(s, s.nodes[it.node].position, what)
    s.suspects = 0
    nodes.begin_repairs(s, now)


def evict(s: Scalars, step: StepRecord, now: float) -> None:
    """Take healthy nodes out of the job and test them: which of them failed, or whether one did, is unknown."""
    first = first_evicted(s, step.in_a_row)
    begin = s.tests
    if begin + step.in_a_row > s.tests_room:
        raise FullError
    for position in range(first, min(first + step.in_a_row, s.nodes_needed)):
        index = s.seat[position]
        if index >= 0 and s.nodes[index].in_job and s.nodes[index].outages == 0:
            s.tested[s.tests] = index
            s.tests += 1
            nodes.take_down(s, index, s.cause, now)
            nodes.send_to_repair(s, index, s.cause, now, nodes.QUALIFICATION)
            # Other outages of the node may last longer.
            nodes.add_segment(s, s.nodes[index], nodes.QUALIFICATION, now + step.timeout * step.scale)
            s.nodes[index].stay_bucket = nodes.IN_REPAIR
    count = s.tests - begin
    s.evicted += count
    state.schedule(s, now + step.timeout * step.scale, state.RETURN, state.ON_TESTED, 0, begin, 0, 0, count, 0.0)


def end_test(s: Scalars, first: int, count: int, now: float) -> None:
    """Let nodes that have passed their test wait for work again."""
    is_any = False
    for index in range(first, first + count):
        is_any = nodes.close(s, s.tested[index], now) or is_any
    if is_any:
        offer(s, now)


def finish(s: Scalars, now: float, is_finished: bool) -> None:
    """Close the job, which is settled, and free its nodes if it is done."""
    stop(s, now)
    expose(s, now, state.NO)
    s.is_running = False
    s.end_of_job = now
    s.is_finished = is_finished
    if is_finished:
        release(s, now)

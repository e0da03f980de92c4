"""The compiled loop: failures that come true, and what each event does. As `sim.engine.failures` and `.simulation`."""

from __future__ import annotations

import math

from ettrick.sim.compiled import jobs, nodes, repairs, state
from ettrick.sim.compiled.state import FailureId, FullError, Origin, Scalars
from ettrick.sim.engine.kernel import order_of
from ettrick.sim.engine.lives import RELAPSE
from ettrick.sim.engine.silent import ONSET
from ettrick.sim.failures.trace import NOTICE
from ettrick.sim.quantiles import quantile
from ettrick.sim.rng import uniform_one


def simulate(s: Scalars) -> None:
    """Simulate until the horizon or the end of the job."""
    start(s)
    while s.is_open:
        index = state.take_next(s)
        call = s.calls[index]
        if s.events < s.log_room:
            s.logged[s.events].time, s.logged[s.events].kind = s.now, call.kind
        s.events += 1
        act(s, call.kind, call.source, call.slot, call.round, call.node, call.count, call.due)
        call = s.calls[index]
        call.free = s.first_free
        s.first_free = index


def act(s: Scalars, kind: int, source: int, slot: int, number: int, node: int, count: int, due: float) -> None:
    """Do what an event is for: those of failures and nodes are here, those of the job and of its time below."""
    now = s.now
    if kind == state.ON_ROW:
        next_row(s)
    elif kind == state.ON_CANDIDATE:
        consider(s, source, slot, number, math.nan, due)
    elif kind == state.ON_DEFERRED:
        consider_deferred(s, source, slot, number, due)
    elif kind == state.ON_LIFE:
        end_life(s, source, due, slot)
    elif kind == state.ON_HIDDEN:
        if s.lives[source].token == slot:
            strike_hidden(s, source)
    elif kind == state.ON_ONSET:
        catch(s, source, slot, number)
    elif kind == state.ON_RETURN:
        end_outage(s, FailureId(source, slot, number), node, count)
    elif kind == state.ON_SAVED:
        strike(s, FailureId(source, slot, number), due, node, count, True)
    elif kind == state.ON_TESTED:
        jobs.end_test(s, slot, count, now)
    elif kind in (state.ON_REPAIRED, state.ON_VISIT_END):
        if kind == state.ON_REPAIRED:
            repairs.finish_course(s, source, now)
        else:
            repairs.end_visit(s, source, now)
        if s.has_offer:
            s.has_offer = False
            jobs.offer(s, now)
    else:
        act_on_job(s, kind, slot, due)


def act_on_job(s: Scalars, kind: int, epoch: int, due: float) -> None:
    """Do what an event of the job is for, or of the time that is simulated."""
    if kind in (state.ON_PHASE_END, state.ON_DETECTED, state.ON_ELIGIBLE, state.ON_TIMEOUT):
        if epoch == s.epoch:
            go_on(s, kind)
    elif kind == state.ON_LOOK:
        if due == s.looks_at:
            look(s)
    elif kind == state.ON_ARRIVAL:
        jobs.enter_queue(s, s.now)
    elif kind == state.ON_WINDOW:
        open_window(s)
    elif kind == state.ON_WARM:
        warm_up(s)
    elif kind == state.ON_END:
        end(s, s.now)


def start(s: Scalars) -> None:
    """Put the first events on the queue, in the order of `ettrick.sim.engine.simulation`."""
    state.schedule(s, s.arrival, state.ARRIVAL, state.ON_ARRIVAL, 0, 0, 0, 0, 0, 0.0)
    start_lives(s)
    for index in range(s.outages):
        it = s.initial[index]
        start_outage(s, FailureId(it.source, it.slot, -1), it.due)
    expect_row(s)
    for index in range(s.dormant):
        it = s.sleeper[index]
        if not nodes.has_hidden(s, it.slot, it.source):
            nodes.keep_hidden(s, nodes.new_life(s, it.slot, it.source, it.slot, 0, math.inf))
    for index in range(s.onsets):
        it = s.caught[index]
        state.schedule(s, it.due, state.FAILURE, state.ON_ONSET, it.source, it.slot, 0, 0, 0, 0.0)
    state.schedule(s, s.end, 0, state.ON_END, 0, 0, 0, 0, 0, 0.0)
    if s.warmup > 0:
        state.schedule(s, s.warmup, state.BOUNDARY, state.ON_WARM, 0, 0, 0, 0, 0, 0.0)
    if s.windows > 0 and s.warmup + s.windows < s.end:
        state.schedule(s, s.warmup + s.windows, state.BOUNDARY, state.ON_WINDOW, 0, 0, 0, 0, 0, s.warmup + s.windows)


def start_lives(s: Scalars) -> None:
    """Hand the lives over that are not in the trace's time: those on the clock busy, and hidden faults."""
    for row in range(s.rows):
        it = s.trace[s.trace_order[row]]
        origin = s.origins[it.source]
        if has_own_clock(origin):
            if origin.hidden:
                nodes.begin_hidden(s, it.slot, it.source, it.slot, 0, it.time, 0.0)
            elif origin.of_job:
                clock = nodes.HELD_CLOCK if origin.away >= 0 else nodes.PROCESS_CLOCK
                nodes.push_life(s, clock, nodes.new_life(s, -1, it.source, it.slot, it.round, it.time), it.time)
            else:
                node = it.slot // origin.divisor
                s.nodes[node].has_clock = True
                s.uses_lives = True
                nodes.keep_life(s, nodes.new_life(s, node, it.source, it.slot, it.round, it.time))


def has_own_clock(origin: Origin) -> bool:
    """Return whether the lives of a source do not end in the trace's time."""
    return origin.hidden or origin.clock == state.BUSY


def start_outage(s: Scalars, failure: FailureId, remaining: float) -> None:
    """Begin the simulation with a node in repair; a life that begins at its return is the first."""
    first, count = nodes_of(s, failure)
    for number in range(nodes.size_of(count)):
        index = nodes.member_of(s, first, count, number)
        nodes.take_down(s, index, failure.source + 1, 0.0)
        if s.nodes[index].place not in (nodes.REPAIR, nodes.WITHHELD):
            nodes.send_to_repair(s, index, failure.source + 1, 0.0, nodes.IN_REPAIR)
    state.schedule_failure(s, remaining, state.RETURN, state.ON_RETURN, failure, first, count, 0.0)


# ----------------------------------------
# Candidates: whether a fault happens, and where it strikes.


def expect_row(s: Scalars) -> None:
    """Let the next row of the trace come due in its time."""
    while s.row < s.rows:
        it = s.trace[s.trace_order[s.row]]
        if not has_own_clock(s.origins[it.source]):
            state.schedule(s, it.time, order_of(it.source, it.slot), state.ON_ROW, 0, 0, 0, 0, 0, 0.0)
            return
        s.row += 1


def next_row(s: Scalars) -> None:
    """Let a row of the trace come due."""
    it = s.trace[s.trace_order[s.row]]
    s.row += 1
    expect_row(s)
    failure = FailureId(it.source, it.slot, it.round)
    if failure.round <= NOTICE:
        first, count = nodes_of(s, failure)
        if holds_any(s, first, count):
            jobs.save_before(s, failure.source + 1, s.now, it.until)
        return
    consider(s, failure.source, failure.slot, failure.round, it.until, math.nan)


def holds_any(s: Scalars, first: int, count: int) -> bool:
    """Return whether the job holds a node, of some, that is up."""
    for index in range(nodes.size_of(count)):
        node = s.nodes[nodes.member_of(s, first, count, index)]
        if node.in_job and node.outages == 0:
            return s.is_holding
    return False


def consider(s: Scalars, source: int, slot: int, number: int, until: float, due: float) -> None:
    """Deal with a life that ends now, unless its clock stood still meanwhile."""
    origin = s.origins[source]
    if origin.clock == state.IN_SERVICE:
        node = slot // origin.divisor
        it = s.nodes[node]
        due = s.now if math.isnan(due) else due
        if it.is_down or due + it.was_down > s.now * (1 + 1e-12):
            # It has not served so long yet, because it was down in between.
            nodes.continue_service(s, node, source, slot, number, due)
            return
        occur(s, FailureId(source, slot, number), until, False)
        if origin.renews != state.NEVER:
            # The clock stands still while the node is down, so both renewals begin at the same reading.
            nodes.continue_service(s, node, source, slot, number + 1, due + state.life_of(s, source, slot, number + 1))
        return
    occur(s, FailureId(source, slot, number), until, False)


def consider_deferred(s: Scalars, source: int, slot: int, number: int, until: float) -> None:
    """Let a candidate that had to wait happen; an outage that was to end by now is left out."""
    if until <= s.now:
        s.candidates += 1
        s.suppressed += 1
        return
    occur(s, FailureId(source, slot, number), until, True)


def occur(s: Scalars, failure: FailureId, until: float, waited: bool) -> None:
    """Let a candidate come true: drop it, or let its fault take effect. One that `waited` has done so enough."""
    s.candidates += 1
    origin = s.origins[failure.source]
    if origin.of_job:
        s.faults += 1
        s.failures += 1
        s.hits += 1
        jobs.hit(s, failure, s.now, detect(s, failure))
        return
    first, count = nodes_of(s, failure)
    inside, outside = sides_of(s, first, count)
    if not inside and not outside and count >= 0 and are_withheld(s, first, count):
        drop(s, failure, inside, until)  # nobody gets any of these nodes: nothing happens to them
        return
    if not may_strike(s, failure, inside, outside, waited or s.exposed == state.BOTH, origin.always or count < 0):
        drop(s, failure, inside, until)
        return
    s.faults += 1
    if not origin.always and origin.interrupts < 1 and state.mark(s, failure, state.INTERRUPTS) >= origin.interrupts:
        s.harmless += 1
        nodes.renew(s, failure)
        return
    strike(s, failure, until, first, count, False)


def may_strike(s: Scalars, failure: FailureId, inside: int, outside: int, is_exposed: bool, always: bool) -> bool:
    """Return whether a fault can strike: nodes of the job that are exposed, or others, which are so now and then.

    The common case first: a fault of one node, which can be hit where it is.
    """
    if is_exposed if inside else always:
        return True
    if inside and not outside and s.exposed != state.NODES:
        return False
    return state.mark(s, failure, state.IDLE_MARK) < s.origins[failure.source].idle_hazard


def sides_of(s: Scalars, first: int, count: int) -> tuple[int, int]:
    """Return how many of the nodes of a failure are up, in the job and outside."""
    inside, outside = 0, 0
    for index in range(nodes.size_of(count)):
        node = s.nodes[nodes.member_of(s, first, count, index)]
        if node.outages == 0:
            if node.in_job and s.is_holding:
                inside += 1
            else:
                outside += 1
    return inside, outside


def are_withheld(s: Scalars, first: int, count: int) -> bool:
    """Return whether all nodes of a failure are withheld."""
    for index in range(nodes.size_of(count)):
        if s.nodes[nodes.member_of(s, first, count, index)].place != nodes.WITHHELD:
            return False
    return True


def nodes_of(s: Scalars, failure: FailureId) -> tuple[int, int]:
    """Return the nodes that a failure of a unit takes down: the first and how many; see `size_of`."""
    origin = s.origins[failure.source]
    if origin.divisor:
        return failure.slot // origin.divisor, 0
    if failure.round >= RELAPSE:
        return failure.slot, 0
    first = s.offset[origin.first_offset + failure.slot]
    count = s.offset[origin.first_offset + failure.slot + 1] - first
    return first, count if count else -1


def drop(s: Scalars, failure: FailureId, inside: int, until: float) -> None:
    """Let a candidate pass that cannot happen now: it never happens, or waits until it can."""
    if s.origins[failure.source].defer and inside and s.exposed in (state.NO, state.PROCESSES):
        if s.waits == s.waits_room:
            raise FullError
        it = s.wait[s.waits]
        it.source, it.slot, it.round, it.until = failure.source, failure.slot, failure.round, until
        s.waits += 1
        s.candidates -= 1
        return
    s.suppressed += 1
    nodes.renew(s, failure)


def detect(s: Scalars, failure: FailureId) -> float:
    """Return how long it takes until the job knows of a failure [s]; see `ettrick.sim.policies.detection.race`."""
    origin = s.origins[failure.source]
    if state.is_foreseen(s, failure):
        return 0.0
    if not math.isnan(origin.detection):
        return origin.detection
    best = math.inf
    for index in range(origin.first_observer, origin.first_observer + origin.observers):
        it = s.watchers[index]
        if it.least >= best:
            break
        if it.coverage < 1 and state.mark(s, failure, it.covers) >= it.coverage:
            continue
        best = min(best, state.draw(s, it.law, failure, it.latency))
    if best == math.inf and origin.human >= 0:
        return state.draw(s, origin.human, failure, origin.human_purpose)
    return best


def strike(s: Scalars, failure: FailureId, until: float, first: int, count: int, is_late: bool) -> None:
    """Let a failure take nodes down, and let it hit the job if that holds some of them.

    One that a sign warns of waits until the job has saved, and is late then.
    """
    now = s.now
    origin = s.origins[failure.source]
    inside, outside = sides_of(s, first, count)
    if inside and not is_late and not origin.planned and (origin.saves or origin.recall > 0):
        ready = jobs.save_before(s, failure.source + 1, now, now + state.notice_of(s, failure))
        if ready > now:
            state.schedule_failure(s, ready, state.FAILURE, state.ON_SAVED, failure, first, count, until)
            return
    count_failure(s, failure, inside, outside)
    latency = detect(s, failure) if inside else 0.0
    if inside:
        suspect_nodes(s, failure, inside, first, count)
    if count >= 0:
        take_nodes(s, failure, until, first, count)
    if inside:
        jobs.hit(s, failure, now, latency)


def count_failure(s: Scalars, failure: FailureId, inside: int, outside: int) -> None:
    """Count a failure by where its nodes were, and by whether somebody has seen it coming."""
    s.failures += 1
    if inside:
        s.hits += 1
    elif outside:
        s.outside += 1
    else:
        s.masked += 1
    origin = s.origins[failure.source]
    if origin.recall > 0 and (inside or outside):
        s.false_alarms += origin.alarm
        s.true_alarms += state.is_foreseen(s, failure) and not origin.alarm
        s.missed += not state.is_foreseen(s, failure)


def suspect_nodes(s: Scalars, failure: FailureId, inside: int, first: int, count: int) -> None:
    """Write down the nodes of the job, so many, that a failure is about to take: it does not know of them yet."""
    if s.suspects + inside > s.suspects_room:
        raise FullError
    for index in range(nodes.size_of(count)):
        node = nodes.member_of(s, first, count, index)
        if s.nodes[node].outages == 0 and s.nodes[node].in_job:
            it = s.suspect[s.suspects]
            it.node, it.source, it.slot, it.round = node, failure.source, failure.slot, failure.round
            s.suspects += 1


def take_nodes(s: Scalars, failure: FailureId, until: float, first: int, count: int) -> None:
    """Take nodes down until their window closes, through a course, or for a drawn time."""
    now = s.now
    origin = s.origins[failure.source]
    law = origin.repair_law
    if not math.isnan(until):
        if until > now:
            nodes.take_out(s, failure, first, count)
            state.schedule_failure(s, until, state.RETURN, state.ON_RETURN, failure, first, count, 0.0)
    elif origin.by_course:
        begin_courses(s, failure, first, count)
    elif origin.apart:
        for number in range(nodes.size_of(count)):
            index = nodes.member_of(s, first, count, number)
            seconds = origin.repair if law < 0 else state.draw_at(s, law, failure, state.REPAIR_MARK, index)
            if seconds > 0:
                nodes.take_to_repair(s, failure, index, 0, seconds)
            else:
                nodes.mend(s, failure, index, 0, now)
    else:
        seconds = origin.repair if law < 0 else state.draw(s, law, failure, state.REPAIR_MARK)
        if seconds > 0:
            nodes.take_to_repair(s, failure, first, count, seconds)
        else:
            nodes.mend(s, failure, first, count, now)
            nodes.renew(s, failure)


def begin_courses(s: Scalars, failure: FailureId, first: int, count: int) -> None:
    """Take nodes down that go through tiers of repair: those outside jobs at once, the others when the job knows."""
    now, cause = s.now, failure.source + 1
    outside, is_any = 0, False
    for number in range(nodes.size_of(count)):
        index = nodes.member_of(s, first, count, number)
        node = s.nodes[index]
        if node.outages == 0:
            is_any = True
            if not (node.in_job and s.is_holding):
                s.outside_job[outside] = index
                outside += 1
            nodes.take_down(s, index, cause, now)
    for number in range(outside):
        nodes.send_to_repair(s, s.outside_job[number], cause, now, nodes.IN_REPAIR)
        repairs.admit(s, s.outside_job[number], failure, now, False)
    if not is_any:
        nodes.renew(s, failure)


def end_outage(s: Scalars, failure: FailureId, first: int, count: int) -> None:
    """Mend the nodes of a failure, return those with nothing else open to service, and let the queue look."""
    now = s.now
    nodes.mend(s, failure, first, count, now)
    returned = False
    for number in range(nodes.size_of(count)):
        if nodes.close(s, nodes.member_of(s, first, count, number), now):
            returned = True
    nodes.renew(s, failure)
    if returned:
        jobs.offer(s, now)


# ----------------------------------------
# Lives on the clocks of the job, and hidden faults.


def end_life(s: Scalars, clock: int, time: float, order: int) -> None:
    """Let the first life of a clock end, if it does."""
    it = s.clocks[clock]
    if time != it.at or order != it.order:
        return
    it.at, it.order = math.inf, 0
    now = s.now
    index = nodes.first_life(s, clock)
    if index < 0 or not it.is_on:
        return
    first = s.dues[clock * s.due_room]
    if now + (first.time - nodes.read(s, clock, now)) > now or first.order > order:
        nodes.arm(s, clock, now)
        return
    nodes.pop_life(s, clock)
    life = s.lives[index]
    node = life.node
    has_clock = node >= 0 and s.nodes[node].has_clock
    if has_clock:
        nodes.drop_life(s, index)
    origin = s.origins[life.source]
    if origin.hidden or life.round >= RELAPSE:
        strike_hidden(s, index)
    else:
        occur(s, FailureId(life.source, life.slot, life.round), math.nan, False)
        life = s.lives[index]
        if origin.renews != state.NEVER and not origin.returns:
            number = life.round + 1
            due = life.due + state.life_of(s, life.source, life.slot, number)
            following = nodes.new_life(s, node, life.source, life.slot, number, due)
            if not has_clock:
                nodes.push_life(s, clock, following, due)
            else:
                nodes.keep_life(s, following)
                if s.nodes[node].in_job:
                    nodes.push_node_life(s, following)
    nodes.arm(s, clock, now)


def strike_hidden(s: Scalars, index: int) -> None:
    """Let a hidden fault make its node fail."""
    now = s.now
    life = s.lives[index]
    node = s.nodes[life.node]
    if node.outages:
        node.hidden_parked = nodes.add_link(s, node.hidden_parked, 0, 0, 0, 0.0, index)
        return
    nodes.drop_hidden(s, index)
    failure = FailureId(life.source, life.slot, life.round)
    if life.round >= RELAPSE:
        s.relapses += 1
    else:
        seconds = state.life_of(s, life.source, life.slot, life.round + 1)
        nodes.begin_hidden(s, life.node, life.source, life.slot, life.round + 1, seconds, now)
    occur(s, failure, math.nan, False)


def catch(s: Scalars, source: int, node: int, number: int) -> None:
    """Let a node catch a hidden fault, unless it has it, and arrange when it might again."""
    if not nodes.has_hidden(s, node, source):
        first = (number + 1) * ONSET
        seconds = state.life_of(s, source, node, first)
        nodes.begin_hidden(s, node, source, node, first, seconds, s.now)
    origin = s.origins[source]
    time = s.now + quantile(s.laws, origin.onset, uniform_one(origin.onset_key, node, number + 1))
    if time < s.end:
        state.schedule(s, time, state.FAILURE, state.ON_ONSET, source, node, number + 1, 0, 0, 0.0)


# ----------------------------------------
# The job, the windows, the end.


def go_on(s: Scalars, kind: int) -> None:
    """Go on with the plan of the job, which was not given up meanwhile."""
    now = s.now
    if kind == state.ON_TIMEOUT:
        step = s.templates[s.current[s.step - 1]]
        if s.is_starved and step.otherwise != -1:
            jobs.stop(s, now)
            jobs.take_way_out(s, step, now)
            jobs.proceed(s, now)
        return
    jobs.settle(s, now)
    if kind == state.ON_PHASE_END:
        jobs.proceed(s, now)
    elif kind == state.ON_DETECTED:
        jobs.answer(s, now)
    else:
        jobs.wait(s, jobs.QUEUED, math.inf, now, state.NO)
        jobs.enter_queue(s, now)


def look(s: Scalars) -> None:
    """Look whether the job is done."""
    time = s.looks_at
    s.looks_at = math.inf
    if s.finish_at == jobs.NOT_YET:
        jobs.settle(s, time)
        jobs.expect_finish(s, s.run_at if s.run_at < math.inf else time)
    elif s.finish_at <= time:
        jobs.settle(s, time)
        jobs.finish(s, time, True)
        end(s, time)
    elif s.finish_at < math.inf:
        s.looks_at = s.finish_at
        state.schedule(s, s.looks_at, state.PHASE, state.ON_LOOK, 0, 0, 0, 0, 0, s.looks_at)


def open_window(s: Scalars) -> None:
    """Charge everything to the window that ends now, and open the next one."""
    edge = s.now
    jobs.settle(s, edge)
    s.down_node_seconds += nodes.settle_nodes(s, edge)
    s.window += 1
    s.edge[s.edges] = edge
    s.edges += 1
    if edge + s.windows < s.end:
        state.schedule(s, edge + s.windows, state.BOUNDARY, state.ON_WINDOW, 0, 0, 0, 0, 0, 0.0)


def warm_up(s: Scalars) -> None:
    """Forget what the nodes did during the warm-up; the job has not arrived yet."""
    nodes.settle_nodes(s, s.now)
    s.candidates = s.suppressed = s.faults = s.harmless = s.failures = s.masked = s.outside = s.hits = 0
    s.relapses = s.repairs = s.false_repairs = s.unblamed = s.evicted = s.wrong_blames = 0
    s.true_alarms = s.false_alarms = s.missed = 0
    for cause in range(s.causes):
        s.repairs_begun[cause] = 0
    for count in range(s.node_count + 1):
        s.down_time[count] = math.nan
    for place in range(nodes.BUCKETS * s.causes):
        s.others_table[place] = 0.0


def end(s: Scalars, now: float) -> None:
    """Close every account at `now`."""
    if s.arrival < now and not s.is_finished:
        jobs.settle(s, now)
        jobs.finish(s, now, False)
    s.down_node_seconds += nodes.settle_nodes(s, now)
    for index in range(s.life_count):
        s.hidden_at_end += s.lives[index].is_hidden
    s.edge[s.edges] = now
    s.edges += 1
    s.is_open = False


# ----------------------------------------
# The start of a replication: what the last one has changed goes back, and failures are drawn.


def reset(s: Scalars) -> None:
    """Put nodes, pools and seats back to the start, and draw the failures unless they are given."""
    cluster, down_time = s.nodes, s.down_time
    for index in range(s.node_count):
        node = cluster[index]
        node.place, node.in_job, node.position = node.home, False, 0
        if node.is_touched:
            nodes.renovate(node)
    for index in range(s.node_count + 1):
        down_time[index] = math.nan
    for number in range(s.pool_count):
        nodes.fill_pool(s, s.pool_order[number])
    seat, lacking, damage, stamped = s.seat, s.lacking, s.damage, s.stamped
    last = s.nodes_needed - 1
    for position in range(s.nodes_needed):
        seat[position], lacking[position], damage[position], stamped[position] = -1, last - position, 0, 0
    stamped[s.nodes_needed] = 0
    if s.draws:
        draw_failures(s)
        sort_trace(s)


def draw_failures(s: Scalars) -> None:
    """Write down the lives that end before the horizon, source by source and unit by unit.

    Units are all alike and new at the start, as `ettrick.sim.failures.trace` draws them.
    """
    uniforms = s.uniforms
    for source in range(s.sources):
        origin = s.origins[source]
        key, reach, units = s.keys[source * s.purposes + state.LIFE], origin.reach, origin.units
        for first in range(0, units, state.BLOCK):
            count = min(state.BLOCK, units - first)
            ended = 0
            for index in range(count):
                u = uniform_one(key, first + index, 0)
                uniforms[index] = u
                ended += u < reach
            for index in range(count if ended else 0):
                u, slot = uniforms[index], first + index
                if u < reach and not (origin.hidden and not s.having[origin.first_having + slot]):
                    draw_lives(s, source, slot, u)


def draw_lives(s: Scalars, source: int, slot: int, u: float) -> None:
    """Write down the lives of a unit that end before the horizon, of which `u` is the number of the first."""
    origin = s.origins[source]
    number, time = 0, 0.0
    while u < origin.reach:
        time += quantile(s.laws, origin.life, u)
        if time >= s.end:
            return
        if s.rows == s.rows_room:
            raise FullError
        row = s.trace[s.rows]
        row.time, row.source, row.slot, row.round, row.until = time, source, slot, number, math.nan
        s.rows += 1
        if not origin.is_ahead:
            return
        number += 1
        u = uniform_one(s.keys[source * s.purposes + state.LIFE], slot, number)


def sort_trace(s: Scalars) -> None:
    """Put the rows of the trace in order of time, those of the same moment as they were drawn.

    Each goes to its share of the horizon, of which there are as many as rows. In a share Shell's method does the rest.
    """
    count = s.rows
    for share in range(count):
        s.shares[share] = 0
    for row in range(count):
        s.shares[share_of(s, row)] += 1
    first = largest = 0
    for share in range(count):
        size = s.shares[share]
        s.shares[share], first, largest = first, first + size, max(largest, size)
    for row in range(count):
        share = share_of(s, row)
        s.trace_order[s.shares[share]] = row
        s.shares[share] += 1
    gap = 1
    while gap < largest:
        gap = 3 * gap + 1
    while gap > 1:
        gap //= 3
        for index in range(gap, count):
            row = s.trace_order[index]
            place = index
            while place >= gap and is_later(s, s.trace_order[place - gap], row):
                s.trace_order[place] = s.trace_order[place - gap]
                place -= gap
            s.trace_order[place] = row


def share_of(s: Scalars, row: int) -> int:
    """Return the share of the horizon in which a row of the trace comes due."""
    return min(int(s.trace[row].time / s.end * s.rows), s.rows - 1)


def is_later(s: Scalars, row: int, reference: int) -> bool:
    """Return whether a row of the trace comes after another one."""
    time, limit = s.trace[row].time, s.trace[reference].time
    return time > limit or (time == limit and row > reference)

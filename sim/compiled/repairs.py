"""Repairs in the compiled loop: who is blamed for a failure, and the course of a node through the tiers of repair.

As `ettrick.sim.engine.repair`. What takes a node down and brings it back is in `ettrick.sim.compiled.nodes`.
"""

from __future__ import annotations

from ettrick.sim.compiled import nodes, state
from ettrick.sim.compiled.state import FailureId, FullError, Scalars
from ettrick.sim.policies.contracts import BLAME_DRAWS

# ----------------------------------------
# Diagnosis.

RIGHT, ANOTHER, NOBODY = 0, 1, 2
"""The node that is blamed: the one that failed, another one of the job, or none."""


def diagnose(s: Scalars, index: int, failure: FailureId, now: float) -> None:
    """Decide who is blamed for a failure of a node, and begin the course of that node."""
    cause = failure.source + 1
    in_job = s.nodes[index].in_job
    blame = blamed(s, failure) if in_job and not state.is_foreseen(s, failure) else RIGHT
    if blame == RIGHT:
        if in_job:
            nodes.send_to_repair(s, index, cause, now, nodes.IN_REPAIR)
        admit(s, index, failure, now, False)
        return
    # Nobody repairs the node: what was wrong with it still is.
    is_up = nodes.close(s, index, now)
    if not is_up:
        # Something else has taken it down meanwhile.
        nodes.send_to_repair(s, index, cause, now, nodes.IN_REPAIR)
    nodes.renew(s, failure)
    nodes.remain(s, index, failure, now)
    if blame == NOBODY:
        s.unblamed += 1
        if is_up:
            swap_out(s, index, now)
        return
    s.wrong_blames += 1
    scapegoat = other_node(s, index, failure)
    if scapegoat >= 0:
        nodes.take_down(s, scapegoat, cause, now)
        nodes.send_to_repair(s, scapegoat, cause, now, nodes.IN_REPAIR)
        admit(s, scapegoat, failure, now, True)


def blamed(s: Scalars, failure: FailureId) -> int:
    """Return who is blamed for a failure that nobody has foreseen."""
    if s.diagnosis_finds < 1 and state.mark(s, failure, state.DIAGNOSIS) >= s.diagnosis_finds:
        return NOBODY
    is_other = s.blames_other > 0 and state.mark(s, failure, state.BLAME) < s.blames_other
    return ANOTHER if is_other else RIGHT


def swap_out(s: Scalars, index: int, now: float) -> None:
    """Put a node that is up and not to blame into the pool of idle ones."""
    nodes.leave(s, index, now)
    nodes.enter(s, nodes.IDLE, index, now)
    if s.swaps == s.node_count:
        raise FullError
    s.swapped[s.swaps] = index
    s.swaps += 1


def other_node(s: Scalars, index: int, failure: FailureId) -> int:
    """Return another node of the job that is up, each with the same probability, or -1."""
    for attempt in range(BLAME_DRAWS):
        candidate = s.seat[int(state.mark(s, failure, s.blame_purposes + attempt) * s.nodes_needed)]
        if candidate >= 0 and candidate != index and s.nodes[candidate].in_job and s.nodes[candidate].outages == 0:
            return candidate
    return -1


# ----------------------------------------
# The course of a repair.


def admit(s: Scalars, index: int, failure: FailureId, now: float, is_wrong: bool) -> None:
    """Let a node that is out of its place begin its course."""
    s.repairs_begun[failure.source + 1] += 1
    if s.patients == s.patients_room:
        raise FullError
    number = s.patients
    s.patients += 1
    patient = s.patient[number]
    patient.node, patient.source, patient.slot, patient.round = index, failure.source, failure.slot, failure.round
    patient.is_wrong, patient.visit, patient.next = is_wrong, 0, -1
    patient.first = s.visit_count
    patient.is_fixed = plan_visits(s, failure, index)
    patient.count = s.visit_count - patient.first
    if s.has_crews:
        next_visit(s, number, now)
        return
    # With crews for everybody the whole course is known now.
    end = now
    for visit in range(patient.first, s.visit_count):
        end += s.visits[visit].seconds
    if s.visits[s.visit_count - 1].tier < 0:
        node = s.nodes[index]
        node.stay_segment = -1
        time = now
        for visit in range(patient.first, s.visit_count):
            time += s.visits[visit].seconds
            nodes.add_segment(s, node, nodes.QUALIFICATION if s.visits[visit].tier < 0 else nodes.IN_REPAIR, time)
        # Other outages of the node may last longer.
        node.stay_bucket = nodes.IN_REPAIR
    state.schedule(s, end, state.RETURN, state.ON_REPAIRED, number, 0, 0, 0, 0, 0.0)


def plan_visits(s: Scalars, failure: FailureId, node: int) -> bool:
    """Write down the stays of a node from its first tier on; return whether the fault is gone then."""
    tier = s.origins[failure.source].tier
    number = 0
    while True:
        if number == s.visit_purposes or s.visit_count + 2 > s.visits_room:
            raise FullError
        purpose = s.first_purposes + 5 * number
        number += 1
        it = s.tiers[tier]
        visit = s.visits[s.visit_count]
        s.visit_count += 1
        visit.tier, visit.seconds = tier, state.draw_at(s, it.law, failure, purpose, node) * s.repair_scale
        if it.escalates > 0 and state.mark_at(s, failure, purpose + 1, node) < it.escalates:
            tier += 1
            continue
        fixed = it.fixes >= 1 or state.mark_at(s, failure, purpose + 2, node) < it.fixes
        if s.test_law < 0:
            return fixed
        visit = s.visits[s.visit_count]
        s.visit_count += 1
        visit.tier, visit.seconds = -1, state.draw_at(s, s.test_law, failure, purpose + 4, node) * s.repair_scale
        if fixed or state.mark_at(s, failure, purpose + 3, node) >= s.test_finds:
            return fixed
        tier = min(tier + 1, s.tier_count - 1)


def next_visit(s: Scalars, number: int, now: float) -> None:
    """Begin the next stay, or wait for a crew."""
    patient = s.patient[number]
    if patient.visit == patient.count:
        # The course is over at this very moment: nothing else of this time comes between.
        finish_course(s, number, now)
        return
    tier = s.visits[patient.first + patient.visit].tier
    if tier >= 0 and s.tiers[tier].crews > 0:
        it = s.tiers[tier]
        if it.free == 0:
            if it.first < 0:
                it.first = number
            else:
                s.patient[it.last].next = number
            it.last = number
            patient.next = -1
            return
        it.free -= 1
    begin_visit(s, number, now)


def begin_visit(s: Scalars, number: int, now: float) -> None:
    """Begin a stay."""
    patient = s.patient[number]
    visit = s.visits[patient.first + patient.visit]
    if visit.tier < 0:
        node = s.nodes[patient.node]
        # What is ahead stays ahead: earlier tests may not have been charged yet.
        nodes.add_segment(s, node, nodes.IN_REPAIR, now)
        nodes.add_segment(s, node, nodes.QUALIFICATION, now + visit.seconds)
        node.stay_bucket = nodes.IN_REPAIR
    state.schedule(s, now + visit.seconds, state.RETURN, state.ON_VISIT_END, number, 0, 0, 0, 0, 0.0)


def end_visit(s: Scalars, number: int, now: float) -> None:
    """End a stay, hand its crew on, and begin the next one."""
    patient = s.patient[number]
    tier = s.visits[patient.first + patient.visit].tier
    if tier >= 0 and s.tiers[tier].crews > 0:
        it = s.tiers[tier]
        if it.first >= 0:
            following = it.first
            it.first = s.patient[following].next
            begin_visit(s, following, now)
        else:
            it.free += 1
    patient.visit += 1
    next_visit(s, number, now)


def finish_course(s: Scalars, number: int, now: float) -> None:
    """Let a node work again, healthy or seemingly so."""
    patient = s.patient[number]
    failure = FailureId(patient.source, patient.slot, patient.round)
    s.repairs += 1
    if patient.is_fixed:
        nodes.cure(s, patient.node)
    else:
        s.false_repairs += 1
        if not patient.is_wrong:
            nodes.remain(s, patient.node, failure, now)
    if not patient.is_wrong:
        nodes.renew(s, failure)
    if nodes.close(s, patient.node, now):
        s.has_offer = True

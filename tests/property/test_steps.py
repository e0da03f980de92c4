"""What is true of every step: more of anything good never slows it, and what is refused names a way out."""

from __future__ import annotations

import math
import pickle
import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hypothesis import assume, given
from hypothesis import strategies as st

from ettrick.sim import catalog
from ettrick.sim.catalog import steps
from ettrick.sim.steps import (
    Breakdown,
    Impairment,
    StepPlan,
    Workload,
    breakdown,
    impaired,
    memory_use,
    problems,
    remedies,
)
from ettrick.sim.steps.memory import activation_memory
from tests.property.common import examples
from tests.strategies import layouts, machines, workloads

if TYPE_CHECKING:
    from collections.abc import Callable

    from ettrick.sim.steps import LayoutViolation, Machine
    from ettrick.sim.steps.workload import Schedule, Sharding

SLACK = 1 + 1e-9

"""Sums of floats in another order."""

STEPS = workloads().flatmap(lambda work: st.tuples(st.just(work), machines(work)))

SHARES = st.floats(0.05, 1)


@examples(200)
@given(STEPS)
def test_terms_are_times_and_sum_to_the_step(step: tuple[Workload, Machine]) -> None:
    """None is negative or endless, in time and in memory, and computing takes some."""
    work, machine = step
    for terms in (breakdown(work, machine), memory_use(work)):
        assert all(0 <= term < math.inf for term in terms)
        assert math.isclose(terms.total, math.fsum(terms), rel_tol=1e-12)
    found = breakdown(work, machine)
    assert found.gemm + found.logits > 0


@examples(200)
@given(STEPS, st.floats(1, 100))
def test_a_better_machine_is_never_slower(step: tuple[Workload, Machine], times: float) -> None:
    """Higher peaks, more memory or link bandwidth, a higher share of any of them: each alone."""
    work, machine = step
    chip, links, shares, constants = machine.chip, machine.links, machine.shares, machine.constants
    peak = {name: times * value for name, value in chip.peak.items()}
    faster = [
        replace(machine, chip=replace(chip, peak=peak)),
        replace(machine, chip=replace(chip, memory_bandwidth=times * chip.memory_bandwidth)),
        *(
            replace(machine, shares=replace(shares, **_raised(shares, name, times)))
            for name in ("gemm", "attention", "logits")
        ),
        *(
            replace(machine, constants=replace(constants, **_raised(constants, name, times)))
            for name in ("scale_up", "network", "memory")
        ),
    ]
    for name, link in zip(links._fields, links, strict=True):
        both = (link._replace(scale_up=times * link.scale_up), link._replace(network=times * link.network))
        faster += [replace(machine, links=links._replace(**{name: wider})) for wider in both]
    total = breakdown(work, machine).total
    for other in faster:
        assert breakdown(work, other).total <= total * SLACK


def _raised(owner: object, name: str, times: float) -> dict[str, Any]:
    """Return one number of a dataclass, multiplied."""
    return {name: times * getattr(owner, name)}


@examples(200)
@given(STEPS, st.floats(0, 1))
def test_more_overlap_is_never_slower(step: tuple[Workload, Machine], share: float) -> None:
    """Traffic that is switched to run beside computing, a larger share of it, or more to hide behind."""
    work, machine = step
    total = breakdown(work, machine).total
    constants = machine.constants
    for name in ("tensor_hidden", "context_hidden", "expert_hidden", "handover_hidden", "data_cover", "shard_cover"):
        more: dict[str, Any] = {name: min(1.0, getattr(constants, name) + share)}
        assert breakdown(work, replace(machine, constants=replace(constants, **more))).total <= total * SLACK, name
    for name in ("data_floor", "shard_floor"):
        less: dict[str, Any] = {name: share * getattr(constants, name)}
        assert breakdown(work, replace(machine, constants=replace(constants, **less))).total <= total * SLACK, name
    for name in ("overlap_tensor", "overlap_data"):
        off: dict[str, Any] = {name: False}
        assert breakdown(replace(work, **off), machine).total * SLACK >= total, name


@examples(200)
@given(STEPS)
def test_recomputation_trades_time_for_memory(step: tuple[Workload, Machine]) -> None:
    """More of it never speeds up, and never needs more memory, unless hardly a layer is in flight.

    A layer that is computed again is whole in memory beside the inputs of the others: that pays off from four on. Of
    attention that is not fused that layer has its scores too, which selective recomputation is not charged for. What
    waits on the host is apart: with less of it a step may be faster.
    """
    work, machine = replace(step[0], offload_layers=0), step[1]
    none, selective, full = (replace(work, recompute=kind) for kind in ("none", "selective", "full"))
    times = [breakdown(one, machine).total for one in (none, selective, full)]
    assert times[0] <= times[1] * SLACK
    assert times[1] <= times[2] * SLACK
    sizes = [activation_memory(one) for one in (none, selective, full)]
    assert sizes[1] <= sizes[0] * SLACK
    if work.shape.layers / work.pipeline * min(work.pipeline, work.microbatches) >= 4:
        assert sizes[2] <= sizes[0] * SLACK
        assert sizes[2] <= sizes[1] * SLACK or not work.fused_attention


@examples(200)
@given(STEPS)
def test_more_pieces_shrink_the_bubble(step: tuple[Workload, Machine]) -> None:
    """Interleaving v pieces fills the pipeline in a v-th of a stage's time, and hands over v times as often."""
    work, machine = step
    assume(work.pipeline > 1 and work.schedule == "1f1b")
    bubbles, handovers = [], []
    for virtual in range(1, 5):
        found = breakdown(replace(work, virtual=virtual), machine)
        bubbles.append(found.bubble)
        handovers.append(found.pipeline)
    assert bubbles == sorted(bubbles, reverse=True)
    assert handovers[1:] == sorted(handovers[1:])


@examples(200)
@given(STEPS)
def test_a_zero_bubble_is_smaller(step: tuple[Workload, Machine]) -> None:
    """H1 fills a part of the bubble of 1F1B with gradients of weights, H2 more; so there is less to hide behind.

    What computes and what is handed over is the same, and no step is longer.
    """
    work, machine = step
    plain = replace(work, virtual=1, overlap_expert=False)
    names: tuple[Schedule, ...] = ("1f1b", "zero-bubble-h1", "zero-bubble-h2")
    found = [breakdown(replace(plain, schedule=name), machine) for name in names]
    for more, less in pairwise(found):
        assert more.bubble >= less.bubble
        assert more._replace(bubble=0, data=0) == less._replace(bubble=0, data=0)
        assert more.total * SLACK >= less.total


@examples(200)
@given(workloads())
def test_dividing_more_never_needs_more_memory(work: Workload) -> None:
    """Nothing, the optimizer's state, parameters too: each holds less, where two ranks or more divide everything.

    Two layers at a time are whole: that pays off on stages of four layers or more. Smaller groups divide less.
    """
    kinds: tuple[Sharding, ...] = ("none", "optimizer", "parameters")
    none, state, all_ = (memory_use(replace(work, sharding=name, shard_ranks=0)).total for name in kinds)
    assert state <= none * SLACK
    copies = work.expert_replicas if work.shape.experts is not None else work.data_ranks
    if min(work.data_ranks, copies) > 1 and work.shape.layers / work.pipeline >= 4:
        assert all_ <= state * SLACK
    groups = [size for size in (1, 2, 4, 8) if work.data_ranks % size == 0]
    sizes = [memory_use(replace(work, sharding="parameters", shard_ranks=size)).total for size in groups]
    assert all(less <= more * SLACK for more, less in pairwise(sizes))


@examples(200)
@given(STEPS, SHARES, SHARES, SHARES)
def test_what_is_hurt_is_never_faster(
    step: tuple[Workload, Machine], compute: float, network: float, scale_up: float
) -> None:
    """Slower GPUs and narrower links: each alone slows a step, both no less than one, and all of it back is healthy."""
    work, machine = step
    healthy = breakdown(work, machine)
    assert impaired(work, machine, Impairment()) == healthy
    hurt = Impairment(compute=compute, network=network, scale_up=scale_up)
    worst = impaired(work, machine, hurt).total
    for name in ("compute", "network", "scale_up"):
        one: dict[str, Any] = {name: getattr(hurt, name)}
        alone = impaired(work, machine, Impairment(**one)).total
        assert healthy.total <= alone * SLACK
        assert alone <= worst * SLACK
        half: dict[str, Any] = {name: one[name] / 2}
        assert alone <= impaired(work, machine, Impairment(**half)).total * SLACK, name


@examples(200)
@given(STEPS, st.data())
def test_missing_replicas_are_a_staircase(step: tuple[Workload, Machine], data: st.DataObject) -> None:
    """With the batch kept, a step depends on ceil(G / (b (d - k))) alone, but for what replicas reduce and update.

    With a smaller batch it takes as long as before.
    """
    work, machine = step
    assume(work.data > 1)
    missing = data.draw(st.integers(1, work.data - 1))
    healthy = breakdown(work, machine)
    kept = impaired(work, machine, Impairment(missing=missing, keeps_batch=True))
    microbatches = math.ceil(work.sequences / (work.microbatch * (work.data - missing)))
    alone = replace(work, data=1, sequences=work.microbatch * microbatches, expert=1)
    lonely = replace(work, data=1, sequences=work.microbatch * work.microbatches, expert=1)
    more = breakdown(alone, machine)
    assert microbatches > work.microbatches
    for name in ("gemm", "attention", "elementwise", "launch", "logits", "tensor", "context", "pipeline", "bubble"):
        grown = getattr(more, name) - getattr(breakdown(lonely, machine), name)
        found = getattr(kept, name) - getattr(healthy, name)
        if work.expert == 1:
            assert math.isclose(found, grown, rel_tol=1e-6, abs_tol=1e-9 * healthy.total), name
    assert _of_microbatches(kept) >= _of_microbatches(healthy)
    shrunk = impaired(work, machine, Impairment(missing=missing))
    assert math.isclose(_of_microbatches(shrunk), _of_microbatches(healthy), rel_tol=1e-9)


def _of_microbatches(found: Breakdown) -> float:
    """Return the time of a step without what replicas do together, and what hosts do [s]."""
    return found.total - found.data - found.optimizer - found.offload


@examples(100)
@given(STEPS, SHARES)
def test_plans_are_sent_and_compared(step: tuple[Workload, Machine], compute: float) -> None:
    """A copy says the same of the healthy step and of an impaired one."""
    work, machine = step
    plan = StepPlan(work, machine, scale=2.0, sigma=0.1)
    copy = pickle.loads(pickle.dumps(plan))
    assert copy == plan
    state = Impairment(compute=compute)
    assert copy.pace(state) == plan.pace(state) <= SLACK
    assert plan.mfu <= 1
    assert hash(work) == hash(replace(work))


def test_the_catalog_is_what_steps_are_drawn_from() -> None:
    """Every accelerator has a positive efficiency of at most 1 at each of its precisions, for any model."""
    for chip in catalog.accelerators().values():
        for precision in chip.peak:
            for experts in (False, True):
                shares = steps.efficiencies(chip, precision, experts=experts)
                assert all(0 < share <= 1 for share in (shares.gemm, shares.attention, shares.logits))
                assert 0 < shares.sigma < 1


def divides(work: Workload) -> bool:
    """Return whether everything that has to be divided evenly is."""
    shape, p, v = work.shape, work.pipeline, work.virtual
    count = shape.experts.count if shape.experts is not None else 1
    return (
        shape.heads % work.tensor == 0
        and count % work.expert == 0
        and any(
            work.expert in (part, part * work.context, part * work.context * work.tensor)
            for part in range(1, work.data + 1)
            if work.data % part == 0
        )
        and work.sequences % (work.data * work.microbatch) == 0
        and (work.context == 1 or work.sequence % (2 * work.context) == 0)
        and work.data * work.context % max(work.shard_ranks, 1) == 0
        and p <= shape.layers
        and (v == 1 or (p > 1 and work.schedule == "1f1b" and _rounds(work)))
    )


def _rounds(work: Workload) -> bool:
    """Return whether each model chunk has a layer, embedding or logits, and microbatches fill a round."""
    return work.pipeline * work.virtual <= work.shape.layers + 2 and work.microbatches >= work.pipeline


@examples(500)
@given(layouts())
def test_a_layout_is_refused_where_something_does_not_divide(work: Workload) -> None:
    """And only there; a size is refused once, and the values that a refusal names are not refused for that rule."""
    found = problems(work)
    assert (found == []) == divides(work)
    assert len({problem.size for problem in found}) == len(found)
    for problem in found:
        for value in _nearest(problem):
            change: dict[str, Any] = {problem.size: value}
            left = problems(replace(work, **change))
            assert not any(other.size == problem.size and _nearest(other) for other in left), (problem, left)


def _nearest(problem: LayoutViolation) -> list[int]:
    """Return the values that a problem names as right."""
    _, _, hint = problem.rule.partition("; nearest: ")
    return [int(word) for word in re.findall(r"\d+", hint)]


KEYS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("sharding", "recompute", "gradients", "loss"), str),
    "sequence_parallel": "true".__eq__,
}


@examples(200)
@given(workloads(), st.floats(0.1, 0.99))
def test_remedies_fit(work: Workload, share: float) -> None:
    """What is offered against too little memory are words of a scenario on as many GPUs, and each of them fits."""
    memory = share * memory_use(work).total
    for words in remedies(work, memory, 8):
        change: dict[str, Any] = {}
        for part in words.split(" with "):
            name, _, value = part.partition(": ")
            change[name] = KEYS.get(name, int)(value)
        changed = replace(work, **change)
        assert changed.gpus == work.gpus, words
        assert problems(changed) == [], words
        assert memory_use(changed).total <= memory, words

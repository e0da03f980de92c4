"""Pipelines played pass by pass, in the order of the papers, against the closed form of a step.

The closed form knows neither passes nor their order.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ettrick.sim.steps import Accelerator, Impairment, Machine, Workload, breakdown, impaired
from ettrick.sim.steps.memory import activation_memory, activations
from ettrick.sim.steps.time import logits_time, stages
from tests.cases import cases
from tests.pipeline_rival import Played, interleaved, one_forward_one_backward, play, zero_bubble
from tests.step_cases import CHIP, SHAPE, bare_machine, workload

EXACT = 1e-9

LAYERS = replace(SHAPE, vocabulary=0)

"""Layers alone: all stages take as long."""

SLOW_MEMORY: Accelerator = replace(CHIP, memory_bandwidth=1e12)

"""Where what is between the products takes time, passes for weights are the shortest."""


def play_schedule(work: Workload, seconds: list[dict[str, float]]) -> Played:
    """Return what happens on the schedule of a layout."""
    p, m, v = work.pipeline, work.microbatches, work.virtual
    if work.schedule != "1f1b":
        times = 1 if work.schedule == "zero-bubble-h1" else 2
        return play([zero_bubble(p, m, stage, times) for stage in range(p)], seconds)
    if v > 1:
        return play([interleaved(p, m, v, stage) for stage in range(p)], seconds, v)
    return play([one_forward_one_backward(p, m, stage) for stage in range(p)], seconds)


def passes(work: Workload, machine: Machine, pace: float = 1.0) -> dict[str, float]:
    """Return the times of the passes of a stage of even layers: a third forward, what is not for weights backward [s].

    Without zero bubble a backward pass is both.
    """
    found = stages(work, machine)
    stage = found.slowest / pace
    if work.schedule == "1f1b":
        return {"F": stage / 3, "B": 2 * stage / 3}
    weights = found.weights / pace
    return {"F": (stage - weights) / 2, "B": (stage - weights) / 2, "W": weights}


EVEN = [(2, 1), (2, 8), (3, 3), (4, 4), (4, 5), (6, 24), (8, 8), (8, 64), (12, 13), (24, 7)]


@cases(("p", "m"), EVEN)
@cases("backward", [1.0, 2.0, 3.0])
def test_one_forward_one_backward(p: int, m: int, backward: float) -> None:
    """T = (m + p - 1)(t_F + t_B), whatever part of it is backward (arXiv 2104.04473, section 2.2)."""
    work = workload(LAYERS, pipeline=p, sequences=m)
    stage = stages(work, bare_machine()).slowest
    times = {"F": stage / (1 + backward), "B": stage * backward / (1 + backward)}
    played = play_schedule(work, [times] * p)
    assert breakdown(work, bare_machine()).total == pytest.approx(played.span, rel=EXACT)
    assert played.span == pytest.approx((m + p - 1) * stage, rel=EXACT)


@cases(("p", "rounds", "v"), [(2, 1, 2), (2, 4, 12), (3, 2, 4), (4, 1, 3), (4, 6, 2), (8, 4, 3)])
def test_interleaved_pieces(p: int, rounds: int, v: int) -> None:
    """The bubble is (p - 1)(t_F + t_B) / v (arXiv 2104.04473, section 2.2)."""
    work = workload(LAYERS, pipeline=p, virtual=v, sequences=rounds * p)
    played = play_schedule(work, [passes(work, bare_machine())] * p)
    found = breakdown(work, bare_machine())
    assert found.total == pytest.approx(played.span, rel=EXACT)
    stage = stages(work, bare_machine()).slowest
    assert found.bubble == pytest.approx((p - 1) * stage / v, rel=EXACT)


def products_alone(work: Workload) -> Workload:
    """Return a step of matrix products with weights: all three passes take as long."""
    return replace(work, shape=replace(work.shape, heads=1, kv_heads=1, head=0), sequence=1, microbatch=256)


@cases("p", [2, 3, 4, 8, 12])
@cases(("schedule", "bubble"), [("zero-bubble-h1", 1.0), ("zero-bubble-h2", 0.0)])
def test_zero_bubble_of_equal_passes(p: int, schedule: str, bubble: float) -> None:
    """With t_F = t_B = t_W the bubble is (p - 1) t_F with H1, a third of that of 1F1B, and none with H2.

    H2 lets stages update at different times: a step is what each of them takes (arXiv 2401.10241, tables 1 and 2).
    Attention, of one token, is less than a thousandth.
    """
    m = 3 * p
    work = products_alone(workload(LAYERS, pipeline=p, sequences=256 * m, schedule=schedule))
    assert work.microbatches == m
    each = passes(work, bare_machine())
    assert each["F"] == pytest.approx(each["W"], rel=1e-2)
    even = dict.fromkeys("FBW", each["W"])
    played = play_schedule(work, [even] * p)
    took = played.span if schedule == "zero-bubble-h1" else played.longest
    assert took == pytest.approx((3 * m + (p - 1) * bubble) * each["W"], rel=EXACT)
    assert breakdown(work, bare_machine()).total == pytest.approx(took, rel=2e-3)


@cases("p", [2, 4, 8])
@cases("schedule", ["zero-bubble-h1", "zero-bubble-h2"])
def test_zero_bubble_of_unequal_passes(p: int, schedule: str) -> None:
    """Passes for weights have no attention and move no activations: (p - 1)(t_F + t_B - t_W), with H2 - 2 t_W."""
    machine = bare_machine(SLOW_MEMORY)
    work = workload(LAYERS, pipeline=p, sequences=4 * p, schedule=schedule)
    each = passes(work, machine)
    assert 0.3 * each["F"] < each["W"] < 0.7 * each["F"]
    played = play_schedule(work, [each] * p)
    took = played.span if schedule == "zero-bubble-h1" else played.longest
    found = breakdown(work, machine)
    assert found.total == pytest.approx(took, rel=EXACT)
    saved = 1 if schedule == "zero-bubble-h1" else 2
    assert found.bubble == pytest.approx((p - 1) * (each["F"] + each["B"] - saved * each["W"]), rel=EXACT)


def counted(work: Workload) -> float:
    """Return how many pieces of microbatches the first stage holds, by the bytes that it is said to hold [-]."""
    kept = activations(work.shape, work.sequence, experts=False)
    piece = work.tokens * (kept.whole + kept.divided) * work.shape.layers / (work.pipeline * work.virtual)
    return activation_memory(work) / piece


@cases(("p", "m"), EVEN)
def test_one_forward_one_backward_holds_as_many_as_there_are_stages(p: int, m: int) -> None:
    """Stage i of p holds p - i microbatches, the first one p, unless there are fewer."""
    work = workload(LAYERS, pipeline=p, sequences=m)
    played = play_schedule(work, [passes(work, bare_machine())] * p)
    assert played.held == [min(p - stage, m) for stage in range(p)]
    assert counted(work) == pytest.approx(played.held[0], rel=EXACT)


@cases(("p", "rounds", "v"), [(2, 1, 2), (2, 4, 12), (3, 2, 4), (4, 1, 3), (4, 6, 2), (8, 4, 3)])
def test_interleaving_holds_more(p: int, rounds: int, v: int) -> None:
    """The first stage holds p v + p - 1 pieces, 1 + (p - 1) / (p v) times p microbatches (arXiv 2205.05198, 4.2).

    Unless there are fewer.
    """
    work = workload(LAYERS, pipeline=p, virtual=v, sequences=rounds * p)
    played = play_schedule(work, [passes(work, bare_machine())] * p)
    assert played.held == [min(p * v + p - 1 - 2 * stage, rounds * p * v) for stage in range(p)]
    assert counted(work) == pytest.approx(played.held[0], rel=EXACT)


@cases("p", [2, 3, 4, 8])
@cases("rounds", [1, 4])
def test_zero_bubble_holds_as_many_or_twice_as_many(p: int, rounds: int) -> None:
    """What a pass keeps is free after its pass for weights: a stage holds p with H1 and 2 p - 1 with H2, if there are.

    The closed form counts 2 p for H2.
    """
    for schedule, most in (("zero-bubble-h1", p), ("zero-bubble-h2", 2 * p - 1)):
        work = workload(LAYERS, pipeline=p, sequences=rounds * p, schedule=schedule)
        held = min(most, rounds * p)
        played = play_schedule(work, [passes(work, bare_machine())] * p)
        assert max(played.held) == played.held[0] == held
        assert held <= counted(work) * (1 + EXACT) <= min(held + 1, rounds * p) * (1 + 2 * EXACT)


SCHEDULES = [("1f1b", 1), ("1f1b", 3), ("zero-bubble-h1", 1), ("zero-bubble-h2", 1)]


def with_one_slow(work: Workload, machine: Machine, pace: float, slow: int) -> float:
    """Return what a step takes when one stage runs at a lower pace [s]."""
    times = [passes(work, machine, pace if stage == slow else 1.0) for stage in range(work.pipeline)]
    played = play_schedule(work, times)
    return played.longest if work.schedule == "zero-bubble-h2" else played.span


@cases(("schedule", "virtual"), SCHEDULES)
@cases("p", [2, 4, 8])
@cases("rounds", [2, 8])
@cases("pace", [0.95, 0.8, 0.5, 0.1])
def test_one_slow_stage(schedule: str, virtual: int, p: int, rounds: int, pace: float) -> None:
    """Every microbatch waits for it, and the others fill the pipeline: to first order, and nobody is ever slower.

    Wherever the stage is, a step takes at least its own work m S / c, and at most the closed form. Of that the bubble
    is too long where the slow stage has work while the pipeline fills: by up to 14 % of the step with 2 p microbatches,
    up to 4 % with 8 p.
    """
    work = workload(LAYERS, pipeline=p, virtual=virtual, sequences=rounds * p, schedule=schedule)
    machine = bare_machine(SLOW_MEMORY)
    closed = impaired(work, machine, Impairment(compute=pace)).total
    own = work.microbatches * stages(work, machine).slowest / pace
    for slow in range(p):
        played = with_one_slow(work, machine, pace, slow)
        assert own * (1 - EXACT) <= played <= closed * (1 + EXACT)
        assert closed <= played * (1.14 if rounds == 2 else 1.04)


@cases("virtual", [1, 3])
@cases("p", [2, 4, 8])
@cases("pace", [0.95, 0.5, 0.1])
def test_a_slow_last_stage_is_exact(virtual: int, p: int, pace: float) -> None:
    """The last stage has no work while the pipeline fills and drains: m S / c + (p - 1) S / v."""
    work = workload(LAYERS, pipeline=p, virtual=virtual, sequences=2 * p)
    closed = impaired(work, bare_machine(), Impairment(compute=pace)).total
    assert with_one_slow(work, bare_machine(), pace, p - 1) == pytest.approx(closed, rel=EXACT)
    stage = stages(work, bare_machine()).slowest
    assert closed == pytest.approx(2 * p * stage / pace + (p - 1) * stage / virtual, rel=EXACT)


@cases("p", [2, 4, 8])
@cases("vocabulary", [1_000, 20_000])
@cases("layers", [24, 22])
def test_a_last_stage_with_logits(p: int, vocabulary: int, layers: int) -> None:
    """A step is m times the slowest stage, and p - 1 times the mean of all to fill the pipeline.

    Where the last stage is slowest that is too long by as much as the mean is longer than the others.
    """
    machine = bare_machine()
    work = workload(replace(SHAPE, vocabulary=vocabulary, layers=layers), pipeline=p, sequences=4 * p)
    found = stages(work, machine)
    each, logits = sum(found.layer), logits_time(work, machine.chip, machine.shares)
    first, _, last = work.stage_layers
    middle = (layers - first - last) / (p - 2) if p > 2 else 0.0
    times = [first * each, *[middle * each] * (p - 2), last * each + logits]
    assert max(times) == pytest.approx(found.slowest, rel=EXACT)
    played = play_schedule(work, [{"F": one / 3, "B": 2 * one / 3} for one in times]).span
    total = breakdown(work, machine).total
    if times[-1] == max(times):
        assert total - played == pytest.approx((p - 1) * found.mean - sum(times[:-1]), abs=EXACT * total)
    assert played * (1 - EXACT) <= total <= 1.2 * played

"""Layouts that cannot be: which rule is broken, and what would keep it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from sim.steps import Experts, Problem, problems
from tests.cases import cases
from tests.step_cases import SHAPE, workload

MIXED = replace(SHAPE, gated=True, experts=Experts(count=16, active=2, ffn=1024))

# What is asked for, which size is wrong, and the nearest values that are right: divisors of what has to be divided.
WRONG = [
    ({"tensor": 3}, "tensor", (2, 4)),
    ({"tensor": 32}, "tensor", (16,)),
    ({"data": 48}, "data", (32, 64)),
    ({"data": 4, "microbatch": 3}, "microbatch", (2, 4)),
    ({"data": 4, "microbatch": 20}, "microbatch", (16,)),
    ({"context": 3}, "context", (2, 4)),
    ({"context": 256}, "context", (128,)),
    ({"pipeline": 4, "virtual": 4}, "virtual", (2, 3)),
    ({"pipeline": 5, "virtual": 2}, "virtual", (1,)),
    ({"data": 12, "sequences": 48, "shard_ranks": 5, "sharding": "parameters"}, "shard_ranks", (4, 6)),
    ({"data": 16, "expert": 3}, "expert", (2, 4)),
    ({"data": 16, "expert": 32}, "expert", (16,)),
]


@cases(("layout", "size", "near"), WRONG, ids=lambda value: str(value))
def test_a_wrong_size_is_told_with_the_nearest_right_ones(
    layout: dict[str, Any], size: str, near: tuple[int, ...]
) -> None:
    """One problem for the size that is wrong; the divisors next to it are named, and each of them is right."""
    work = workload(MIXED, **layout)
    (problem,) = problems(work)
    assert problem.size == size
    assert nearest(problem) == near
    for value in near:
        right: dict[str, Any] = {size: value}
        assert problems(replace(work, **right)) == []


def nearest(problem: Problem) -> tuple[int, ...]:
    """Return the values that a problem names as right."""
    _, _, hint = problem.rule.partition("; nearest: ")
    return tuple(int(word) for word in re.findall(r"\d+", hint))


@cases(
    ("layout", "size", "words"),
    [
        ({"pipeline": 25}, "pipeline", "25 stages are more than the 24 layers of the model"),
        ({"virtual": 2}, "virtual", "a pipeline of one stage has nothing to interleave"),
        ({"pipeline": 4, "virtual": 2, "schedule": "zero-bubble-h1"}, "virtual", "does not interleave; use 1f1b"),
        ({"pipeline": 4, "virtual": 2, "data": 32}, "virtual", "rounds of 4, and a replica has 2"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_no_other_number_would_mend_is_told_in_words(layout: dict[str, Any], size: str, words: str) -> None:
    """More stages than layers, nothing to interleave, a schedule that does not, and too few microbatches."""
    (problem,) = problems(workload(**layout))
    assert problem.size == size
    assert words in problem.rule


def test_a_model_without_experts_spreads_none() -> None:
    """Expert ranks need experts."""
    (problem,) = problems(workload(data=4, expert=2))
    assert problem == Problem("expert", "the model has no experts to spread")


def test_every_wrong_size_is_told() -> None:
    """One problem for each, in one go."""
    found = problems(workload(MIXED, tensor=3, context=3, pipeline=4, virtual=4, data=48, expert=3))
    assert sorted(problem.size for problem in found) == ["context", "data", "expert", "tensor", "virtual"]


@cases("layers", [24, 22])
def test_embedding_and_logits_may_count_as_layers(layers: int) -> None:
    """Pieces are even if layers divide, or layers and two more, where both ends have a layer less (GPT, Llama 3)."""
    shape = replace(SHAPE, layers=layers)
    work = workload(shape, pipeline=4, virtual=3 if layers == 22 else 2)
    assert problems(work) == []
    ends = 6 if layers == 24 else 5
    assert work.stage_layers == (ends, 6, ends)


@cases("stages", [2, 4, 7, 16])
@cases("logits", [0, 1, 2.5])
def test_stages_hold_all_layers_and_the_logits_count(stages: int, logits: float) -> None:
    """Where layers do not divide, no stage takes a layer longer than its share of layers and logits together."""
    plain = replace(SHAPE, layers=23, vocabulary=0)
    shape = replace(plain, vocabulary=int(logits * plain.dense_layer / plain.hidden))
    first, most, last = workload(shape, pipeline=stages).stage_layers
    assert first * (stages - 1) + last >= 23, "all layers are somewhere"
    assert most == max(first, last)
    slowest = max(most, last + logits)
    assert (23 + logits) / stages <= slowest < (23 + logits) / stages + 1


def test_nearest_context_of_an_odd_sequence() -> None:
    """101 tokens can be cut into no even number of pieces: only one context rank can have them."""
    (problem,) = problems(workload(sequence=101, context=3))
    for value in nearest(problem):
        assert problems(workload(sequence=101, context=value)) == []

"""Pipelines played pass by pass, in the orders of the papers: a rival of the closed form of a step.

Each stage has a list of passes: forward (F), backward for activations (B), backward for weights (W). It runs them one
after another, each as soon as what it needs has arrived.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple


class Pass(NamedTuple):
    """One pass of one microbatch through one piece of a stage."""

    kind: str
    microbatch: int
    piece: int = 0


@dataclass
class Played:
    """When each stage began and ended [s], and the most pieces of microbatches that it held at once."""

    begins: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    held: list[int] = field(default_factory=list)

    @property
    def span(self) -> float:
        """From the first pass of all to the last [s]."""
        return max(self.ends) - min(self.begins)

    @property
    def longest(self) -> float:
        """The longest that a stage took, from its own first pass to its last [s]."""
        return max(end - begin for begin, end in zip(self.begins, self.ends, strict=True))


def one_forward_one_backward(stages: int, microbatches: int, stage: int) -> list[Pass]:
    """Return the passes of a stage: p - i - 1 ahead, then one of each kind in turn (arXiv 2104.04473, figure 4)."""
    ahead = min(stages - stage - 1, microbatches)
    order = [Pass("F", number) for number in range(ahead)]
    for number in range(microbatches):
        order += [Pass("F", number + ahead)] if number + ahead < microbatches else []
        order.append(Pass("B", number))
    return order


def interleaved(stages: int, microbatches: int, virtual: int, stage: int) -> list[Pass]:
    """Return the same for `virtual` pieces of a stage: rounds of p microbatches through each piece in turn."""
    total = microbatches * virtual
    ahead = min(2 * (stages - stage - 1) + (virtual - 1) * stages, total)

    def forward(number: int) -> Pass:
        rounds, inside = divmod(number, stages * virtual)
        return Pass("F", rounds * stages + inside % stages, inside // stages)

    def backward(number: int) -> Pass:
        _, microbatch, piece = forward(number)
        return Pass("B", microbatch, virtual - 1 - piece)

    order = [forward(number) for number in range(ahead)]
    for number in range(total):
        order += [forward(number + ahead)] if number + ahead < total else []
        order.append(backward(number))
    return order


def zero_bubble(stages: int, microbatches: int, stage: int, times: int) -> list[Pass]:
    """Return the passes of a stage with gradients of weights put off (arXiv 2401.10241, figures 2 and 3).

    H1 (`times` 1) has as many forward passes ahead as 1F1B, H2 (2) twice as many. A stage puts off as many passes W as
    keep all stages at the same number of microbatches in flight, and makes up for them at the end.
    """
    limit = stages if times == 1 else 2 * stages - 1
    ahead = min(times * (stages - stage - 1), microbatches)
    order = [Pass("F", number) for number in range(ahead)]
    done = 0
    for number in range(microbatches):
        order += [Pass("F", number + ahead)] if number + ahead < microbatches else []
        order.append(Pass("B", number))
        begun = min(number + ahead + 1, microbatches)
        # Once no forward pass is left, the gaps between backward passes are filled.
        if begun - done >= limit or begun == microbatches:
            order.append(Pass("W", done))
            done += 1
    return order + [Pass("W", number) for number in range(done, microbatches)]


def play(orders: list[list[Pass]], seconds: list[dict[str, float]], virtual: int = 1) -> Played:
    """Return what happens if each stage runs its passes in order, each as soon as it can."""
    last, free = len(orders) - 1, "W" if any(one.kind == "W" for one in orders[0]) else "B"
    ends: dict[tuple[int, Pass], float] = {}
    ready, clock = [0] * len(orders), [0.0] * len(orders)
    begins = [-1.0] * len(orders)

    def needs(stage: int, one: Pass) -> tuple[int, Pass] | None:
        kind, microbatch, piece = one
        if kind == "W":
            return stage, one._replace(kind="B")
        if kind == "F":
            if stage > 0:
                return stage - 1, one
            return (last, Pass("F", microbatch, piece - 1)) if piece > 0 else None
        if stage < last:
            return stage + 1, one
        if piece < virtual - 1:
            return 0, Pass("B", microbatch, piece + 1)
        return stage, Pass("F", microbatch, piece)

    moved = True
    while moved:
        moved = False
        for stage, order in enumerate(orders):
            while ready[stage] < len(order):
                one = order[ready[stage]]
                before = needs(stage, one)
                if before is not None and before not in ends:
                    break
                start = max(clock[stage], ends[before] if before is not None else 0.0)
                begins[stage] = start if begins[stage] < 0 else begins[stage]
                clock[stage] = ends[stage, one] = start + seconds[stage][one.kind] / virtual
                ready[stage] += 1
                moved = True
    assert all(count == len(order) for count, order in zip(ready, orders, strict=True)), "nobody waits for ever"
    return Played(begins, clock, [_most_held(order, free) for order in orders])


def _most_held(order: list[Pass], free: str) -> int:
    """Return the most forward passes of which what they keep is not free yet."""
    return max(accumulate({"F": 1, free: -1}.get(one.kind, 0) for one in order))

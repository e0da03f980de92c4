"""How many nodes an incident takes: draws are the inverse of the stated law, means are its mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim.failures.spread import Size
from tests.cases import cases
from tests.source_rival import size_law

SIZES: dict[str, tuple[dict[str, Any], int]] = {
    "nodes": ({"nodes": 3}, 8),
    "more nodes than there are": ({"nodes": 30}, 8),
    "mean": ({"mean": 4.5}, 200),
    "mean of one": ({"mean": 1}, 8),
    "mean from least": ({"mean": 5, "least": 2}, 64),
    "mean cut off": ({"mean": 20, "least": 3}, 10),
    "mean that is the least": ({"mean": 3, "least": 3}, 10),
    "mean in a domain as small": ({"mean": 5, "least": 3}, 3),
    "share": ({"share": "30 %"}, 20),
    "share from least": ({"share": 0.02, "least": 2}, 64),
    "share of one": ({"share": 0.5}, 1),
    "everybody": ({"share": 1}, 5),
    "values": ({"values": [1, 4, 2, 4]}, 8),
    "weights": ({"values": [7, 1, 90, 3], "weights": [0.5, 3, 1.5, 0]}, 8),
}


@cases("name", SIZES)
def test_draws_are_the_inverse_of_the_law(name: str) -> None:
    """Between the steps of its distribution, a uniform number gives the size whose step it is on."""
    parameters, members = SIZES[name]
    size = Size.model_validate(parameters)
    law = size_law(size, members)
    assert law.sum() == pytest.approx(1.0)
    numbers = (np.arange(4000) + 0.5) / 4000
    sizes = np.array([size.draw(number, members) for number in numbers])
    if size.values is not None:
        # Values may be in any order: each has its share of the numbers.
        assert np.bincount(sizes, minlength=members + 1) / 4000 == pytest.approx(law, abs=1e-3)
        return
    reached = np.cumsum(law)
    clear = np.abs(numbers[:, None] - reached).min(axis=1) > 1e-9
    assert clear.sum() > 3900
    assert np.array_equal(sizes[clear], np.searchsorted(reached, numbers[clear]))


@cases("name", SIZES)
def test_means(name: str) -> None:
    """The mean is the sum of sizes by their probabilities, cut off at the domain."""
    parameters, members = SIZES[name]
    size = Size.model_validate(parameters)
    assert size.mean_of(members) == pytest.approx(float(np.arange(members + 1) @ size_law(size, members)))


@cases("name", SIZES)
@cases("number", [2.0**-53, 1 - 2.0**-53])
def test_the_ends_of_the_uniform_numbers(name: str, number: float) -> None:
    """The smallest and the largest number give a size that the law has, or at least a whole one of the domain."""
    parameters, members = SIZES[name]
    size = Size.model_validate(parameters).draw(number, members)
    assert isinstance(size, int)
    assert 1 <= size <= members


def test_sizes_by_hand() -> None:
    """A geometric law with mean 2 halves at each step; a value's weight is its stretch of the numbers."""
    halves = Size(mean=2)
    assert [halves.draw(number, 9) for number in (0.1, 0.49, 0.51, 0.74, 0.76, 0.9)] == [1, 1, 2, 2, 3, 4]
    observed = Size(values=(5, 2), weights=(1, 3))
    assert [observed.draw(number, 9) for number in (0.1, 0.24, 0.26, 0.99)] == [5, 5, 2, 2]
    assert observed.mean_of(9) == 2.75
    assert observed.mean_of(3) == (3 + 3 * 2) / 4


@cases(
    ("parameters", "rule"),
    [
        ({}, r"give exactly one of nodes, mean, share and values \(given: none\)"),
        ({"nodes": 2, "mean": 3}, r"given: nodes, mean"),
        ({"mean": 2, "least": 3}, "2 nodes are below the least of 3"),
        ({"values": [2, 0]}, "takes at least one node, not 0"),
        ({"values": [2, 1], "weights": [1]}, "one number for each of values"),
        ({"values": [2, 1], "weights": [0, 0]}, "one above"),
        ({"values": [2, 1], "weights": [2, -1]}, "none below zero"),
        ({"nodes": 2, "weights": [1]}, "one number for each of values"),
        ({"nodes": 2, "least": 2}, "goes with mean or share"),
        ({"values": [2, 1], "least": 2}, "goes with mean or share"),
        ({"share": 0}, "greater than 0"),
    ],
)
def test_impossible_sizes_are_refused(parameters: dict[str, Any], rule: str) -> None:
    """The message says the rule."""
    with pytest.raises(ValueError, match=rule):
        Size.model_validate(parameters)

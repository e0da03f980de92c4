"""What every kind of detection must satisfy, for every class of faults and kind of effect."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sim import rng
from sim.policies.contracts import FAULTS
from tests.intervals import Z, close

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.policies.detection.kinds import Detection
    from sim.policies.detection.noticing import Noticing

KINDS = ("crash", "hang", "slow", "degrade", "corrupt", "spike")

"""Kinds of effects."""

_DRAWS = 3000


def marks(index: int, seed: int = 1) -> Callable[[str], float]:
    """Return the numbers of fault `index`, by purpose."""
    return lambda purpose: rng.uniform_one(rng.stream(seed, 0, purpose), index)


def times(noticing: Noticing, draws: int, seed: int = 1) -> np.ndarray:
    """Return the times until `draws` faults are noticed [s], shape (draws,)."""
    columns: dict[str, list[float]] = {}

    def column(purpose: str) -> list[float]:
        if purpose not in columns:
            columns[purpose] = rng.uniform(rng.stream(seed, 0, purpose), range(draws)).tolist()
        return columns[purpose]

    return np.array([noticing.draw(lambda purpose, place=index: column(purpose)[place]) for index in range(draws)])


def check_detection(detection: Detection) -> None:
    """Check a detection on every class of faults and kind of effect.

    Times are not negative, follow from the marks alone, have the mean that is stated, are noticed as often as is
    stated, and are multiplied by the scale. What stops a job is noticed in the end.
    """
    for fault in FAULTS:
        for kind in KINDS:
            noticing = detection.noticing(fault, kind)
            if noticing is None:
                assert kind not in ("crash", "hang"), (fault, kind)
                continue
            if kind in ("crash", "hang"):
                assert noticing.certain == pytest.approx(1)
            _check_times(noticing)
            tripled = detection.model_copy(update={"scale": 3 * detection.scale}).noticing(fault, kind)
            assert tripled is not None
            assert tripled.mean_value == pytest.approx(3 * noticing.mean_value, rel=1e-9)
            assert times(tripled, 100) == pytest.approx(3 * times(noticing, 100), rel=1e-12)


def _check_times(noticing: Noticing) -> None:
    """Check the times of one class of faults against what is stated of them."""
    drawn = times(noticing, _DRAWS)
    assert np.all(drawn >= 0)
    assert np.array_equal(drawn[:100], times(noticing, 100))
    for index in range(100):
        time, who = noticing.found(marks(index))
        assert time == drawn[index] == noticing.draw(marks(index))
        assert (who in noticing.shares()) == math.isfinite(time)
    found = drawn[np.isfinite(drawn)]
    certain = noticing.certain
    assert abs(found.size / _DRAWS - certain) <= Z * math.sqrt(certain * (1 - certain) / _DRAWS)
    if found.size:
        assert close(found, noticing.mean_value)
    assert math.fsum(noticing.shares().values()) == pytest.approx(certain, abs=1e-6)

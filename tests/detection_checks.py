"""What every kind of detection must satisfy, for every class of faults and kind of effect."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ettrick.sim import rng
from ettrick.sim.policies.contracts import FAULTS
from tests.intervals import Z, close

if TYPE_CHECKING:
    from collections.abc import Callable

    from ettrick.sim.policies.detection.kinds import Detection
    from ettrick.sim.policies.detection.race import DetectionRace

KINDS = ("crash", "hang", "slow", "degrade", "corrupt", "spike")

"""Kinds of effects."""

_DRAWS = 3000


def marks(index: int, seed: int = 1) -> Callable[[str], float]:
    """Return the numbers of fault `index`, by purpose."""
    return lambda purpose: rng.uniform_one(rng.stream(seed, 0, purpose), index)


def times(detection_race: DetectionRace, draws: int, seed: int = 1) -> np.ndarray:
    """Return the times until `draws` faults are noticed [s], shape (draws,)."""
    columns: dict[str, list[float]] = {}

    def column(purpose: str) -> list[float]:
        if purpose not in columns:
            columns[purpose] = rng.uniform(rng.stream(seed, 0, purpose), range(draws)).tolist()
        return columns[purpose]

    return np.array(
        [detection_race.draw(lambda purpose, place=index: column(purpose)[place]) for index in range(draws)]
    )


def check_detection(detection: Detection) -> None:
    """Check a detection on every class of faults and kind of effect.

    Times are not negative, follow from the marks alone, have the mean that is stated, are noticed as often as is
    stated, and are multiplied by the scale. What stops a job is noticed in the end.
    """
    for fault in FAULTS:
        for kind in KINDS:
            detection_race = detection.detection_race(fault, kind)
            if detection_race is None:
                assert kind not in ("crash", "hang"), (fault, kind)
                continue
            if kind in ("crash", "hang"):
                assert detection_race.certain == pytest.approx(1)
            _check_times(detection_race)
            tripled = detection.model_copy(update={"scale": 3 * detection.scale}).detection_race(fault, kind)
            assert tripled.mean_value == pytest.approx(3 * detection_race.mean_value, rel=1e-9)
            assert times(tripled, 100) == pytest.approx(3 * times(detection_race, 100), rel=1e-12)


def _check_times(detection_race: DetectionRace) -> None:
    """Check the times of one class of faults against what is stated of them."""
    drawn = times(detection_race, _DRAWS)
    assert np.all(drawn >= 0)
    assert np.array_equal(drawn[:100], times(detection_race, 100))
    for index in range(100):
        time, who = detection_race.found(marks(index))
        assert time == drawn[index] == detection_race.draw(marks(index))
        assert (who in detection_race.shares()) == math.isfinite(time)
    found = drawn[np.isfinite(drawn)]
    certain = detection_race.certain
    assert abs(found.size / _DRAWS - certain) <= Z * math.sqrt(certain * (1 - certain) / _DRAWS)
    if found.size:
        assert close(found, detection_race.mean_value)
    assert math.fsum(detection_race.shares().values()) == pytest.approx(certain, abs=1e-6)

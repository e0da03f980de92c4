"""The engine against renewal theory: a job whose software fails after gaps of any law, in every share of its time.

A source of the kind `job` has one life at a time. It runs while failures can hit the job, so that the next gap begins
with the restart where that is exposed, and with the first step after it where it is not. Tolerances come from the
spread of independent replications, by Student's law, and from what the ends of a run can hold.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

import sim
from sim.formulas.goodput import expected_shares
from sim.policies.contracts import Bucket
from sim.scenario.laws import Weibull
from tests.cases import cases
from tests.harness import prepared
from tests.oracle.theory.renewal import law_shares, measured_shares
from tests.pace import SEED, one_in

REPLICATIONS = 16
FAILURES = 1000
"""Mean failures of a run."""
LIMIT = float(stats.t.isf(1e-5 / 2, REPLICATIONS - 1))
"""Half width of an interval in standard errors: with five shares a false alarm in 20,000 tests."""
MEAN = 3600.0
"""Mean gap [s]."""
NAMES = {
    "productive": [Bucket.PRODUCTIVE],
    "checkpoint_stall": [Bucket.CHECKPOINT_STALL],
    "lost_work": [Bucket.LOST_WORK],
    "detection": [Bucket.DETECTION, Bucket.RESCHEDULE],
    "restart": [Bucket.INITIALIZE, Bucket.RESTORE],
}


def exact(seconds: float) -> str:
    """Return a time as text that is read back to the same number."""
    return f"{seconds!r} s"


class Times(NamedTuple):
    """Saves and restarts of a job [s]; the restart is exposed to failures, the pause before it is not."""

    interval: float
    write: float
    restart: float = 0.0
    pause: float = 0.0
    drain: float = 0.0

    def of_law(self, shape: float) -> dict[str, float]:
        """Return the shares of Weibull gaps in theory."""
        law = Weibull.from_seconds(shape=shape, mean=MEAN)
        return law_shares(lambda x: 1.0 - law.cdf(x), MEAN, *self._rest)

    def of_table(self, gaps: list[float]) -> dict[str, float]:
        """Return the shares of the gaps of a table in theory."""
        return measured_shares(gaps, *self._rest)

    @property
    def _rest(self) -> tuple[float, float, float, float, float]:
        return self.interval, self.write, self.restart, self.pause, self.drain


def shares_of(law: dict[str, Any], times: Times) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return mean shares of a simulated job in the order of `NAMES`, and how far they may be from theory."""
    horizon = FAILURES * (MEAN + times.pause)
    saves = {"interval": exact(times.interval), "stall": exact(times.write), "write": exact(times.drain)}
    case = prepared(
        horizon=exact(horizon),
        jobs=[{"name": "job", "gpus": 2}],
        failures=[{"use": "job", "name": "failure", "law": law}],
        checkpoint={"tiers": [saves | {"restore": "0 s"}]},
        recovery={
            "use": "hot-spare",
            "reschedule": exact(times.pause),
            "exposed": False,
            "initialize": exact(times.restart),
        },
        seed=SEED,
    )
    jobs = [sim.run(case, number).jobs[0] for number in range(REPLICATIONS)]
    table = np.array([[sum(job.buckets[one] for one in NAMES[name]) / job.requested for name in NAMES] for job in jobs])
    # A gap and a cycle of saves may be cut off at the end.
    ends = (MEAN + times.interval + times.write + times.drain) / horizon
    return table.mean(axis=0), LIMIT * table.std(axis=0, ddof=1) / math.sqrt(REPLICATIONS) + ends


# By what is at stake between two failures, from a sixtieth of the mean gap to more than all of it.
TIMES = {
    "light": Times(interval=60.0, write=1.0, pause=60.0),
    "renewed at the first step": Times(interval=1200.0, write=60.0, pause=360.0),
    "renewed at the failure": Times(interval=1200.0, write=60.0, restart=600.0),
    "everything": Times(interval=900.0, write=30.0, restart=300.0, pause=320.0, drain=600.0),
    "heavy": Times(interval=4000.0, write=300.0, restart=900.0),
}


@pytest.mark.parametrize("shape", one_in(3, [0.7, 1.5]))
@pytest.mark.parametrize("name", TIMES)
def test_weibull_gaps(name: str, shape: float) -> None:
    """Every share of a job with Weibull gaps is that of theory, and the theory of Poisson failures is seen to fail."""
    times = TIMES[name]
    scale = MEAN / math.gamma(1 + 1 / shape)
    mean, allowed = shares_of({"law": "weibull", "shape": shape, "scale": exact(scale)}, times)
    theory = times.of_law(shape)
    apart = mean - np.array([theory[share] for share in NAMES])
    assert np.all(np.abs(apart) <= allowed), dict(zip(NAMES, (apart / allowed).round(2), strict=True))
    if name != "light":
        poisson = expected_shares(times.interval, times.write, MEAN, times.restart, times.pause, times.drain)
        assert np.any(np.abs(mean - np.array([poisson[share] for share in NAMES])) > allowed)


@pytest.mark.parametrize("name", ["renewed at the first step", "everything"])
def test_measured_gaps(name: str) -> None:
    """A job whose gaps are drawn from a table has the shares of the table: many short gaps, and a few very long."""
    gaps = [100.0, 250.0, 400.0, 700.0, 900.0, 1300.0, 2500.0, 3600.0, 6250.0, 20_000.0]
    assert sum(gaps) == 10 * MEAN
    times = TIMES[name]
    law = {"law": "empirical", "values": [exact(gap) for gap in gaps]}
    mean, allowed = shares_of(law, times)
    theory = times.of_table(gaps)
    apart = mean - np.array([theory[share] for share in NAMES])
    assert np.all(np.abs(apart) <= allowed), dict(zip(NAMES, (apart / allowed).round(2), strict=True))


# ------------------------------------------------------------------------------------------------------- theory alone


@cases("mean", [100 * MEAN, MEAN, 600.0, 60.0])
@cases("times", [(0.0, 0.0, 0.0), (120.0, 60.0, 0.0), (300.0, 0.0, 500.0)])
def test_exponential_gaps_are_the_theory_of_poisson_failures(mean: float, times: tuple[float, float, float]) -> None:
    """All shares are those of `expected_shares`, to 1e-9, from light to hopeless."""
    ours = law_shares(lambda x: np.exp(-x / mean), mean, 500.0, 20.0, *times)
    assert ours == pytest.approx(expected_shares(500.0, 20.0, mean, *times), abs=1e-9)


def test_a_fixed_gap_by_hand() -> None:
    """Every 1000 s a failure: 100 s of restart, 8 cycles of 100 + 10 s, 20 s of the next; a drain of 30 s voids one."""
    times = Times(interval=100.0, write=10.0, restart=100.0, pause=250.0)
    hand = {"productive": 800, "checkpoint_stall": 80, "lost_work": 20, "detection": 250, "restart": 100}
    assert times.of_table([1000.0]) == pytest.approx({name: seconds / 1250 for name, seconds in hand.items()})
    late = times._replace(drain=30.0).of_table([1000.0])
    assert (late["productive"], late["lost_work"]) == pytest.approx((700 / 1250, 120 / 1250))

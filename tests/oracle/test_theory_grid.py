"""Every closed form of goodput against the simulator on a grid, from 0.98 of the time productive down to 0.2.

The settings and their families are in `tests.oracle.grid_settings`. Each share of a job's time has an interval of its
own: Student's quantile for the standard error of independent replications, at a family-wise error of 1e-4 over all
shares of all settings (Bonferroni). To it comes only what the two ends of a run can hold, which is worked out for each
setting, and, where replicas leave one by one, the error that the theory states of itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from scipy import stats

from tests.harness import results_of
from tests.oracle.grid_settings import FAMILIES, GRID

if TYPE_CHECKING:
    from tests.oracle.grid_settings import Setting, Shares

FALSE_ALARM = 1e-4

"""Probability that any share of any setting is outside by luck."""

HEAVY, SEEN_THROUGH = 0.6, 2 / 3

"""Productive share from which on downwards wrong theories are tried, and the part of them that must be outside [-]."""

CHECKS = sum(len(setting.theory) for setting in GRID)


class Seen(NamedTuple):
    """Mean shares of the simulated time of a job, and how far each may be from theory [-]."""

    mean: Shares
    allowed: Shares

    def outside(self, theory: Shares) -> dict[str, float]:
        """Return the shares that are not those of a theory, and how far they are, in what is allowed [-]."""
        apart = {name: (self.mean[name] - share) / self.allowed[name] for name, share in theory.items()}
        return {name: round(ratio, 2) for name, ratio in apart.items() if abs(ratio) > 1}


def simulated(setting: Setting, failures: int, replications: int) -> Seen:
    """Return what independent replications of a setting show."""
    case = setting.job(failures)
    jobs = [result.jobs[0] for result in results_of(case, replications)]
    assert sum(sum(job.interruptions.values()) for job in jobs) >= 0.9 * failures * replications
    limit = float(stats.t.isf(FALSE_ALARM / 2 / CHECKS, replications - 1))
    mean, allowed = {}, {}
    for name in setting.theory:
        column = np.array([sum(job.buckets[one] for one in setting.buckets[name]) / job.requested for job in jobs])
        mean[name] = float(column.mean())
        error = float(column.std(ddof=1)) / math.sqrt(replications)
        allowed[name] = limit * error + setting.edge / case.horizon + setting.known.get(name, 0.0) + 1e-9
    return Seen(mean, allowed)


def compare(family: str, failures: int, replications: int, every: int = 1) -> None:
    """Assert that theory holds in each `every`-th setting of a family, and most wrong ones do not in heavy ones.

    Wrong are twice the rate, the first order, and theories that leave out saves, downtimes, drains, absences, stalls or
    waits, or take random restarts by their mean: 3 to 5 for each setting.
    """
    settings = FAMILIES[family][::-every]  # the heaviest is always one of them
    heavy = min(setting.theory["productive"] for setting in settings)
    missed: dict[str, dict[str, float]] = {}
    outside: dict[tuple[str, str], bool] = {}
    for setting in settings:
        seen = simulated(setting, failures, replications)
        if far := seen.outside(setting.theory):
            missed[setting.name] = far
        if setting.theory["productive"] <= max(heavy, HEAVY):
            outside |= {(setting.name, name): bool(seen.outside(wrong)) for name, wrong in setting.wrong.items()}
    assert not missed
    assert sum(outside.values()) >= SEEN_THROUGH * len(outside), [
        each for each, is_out in outside.items() if not is_out
    ]


def test_the_grid_covers_all_regimes() -> None:
    """At least 60 settings, from 0.98 to 0.2 productive, some in each tenth, for each kind of failure and recovery."""
    assert len(GRID) >= 60
    productive = np.array([setting.theory["productive"] for setting in GRID])
    assert productive.max() == pytest.approx(0.98)
    assert productive.min() == pytest.approx(0.2)
    for share in np.arange(0.2, 1.0, 0.1):
        assert np.sum((productive > share - 1e-6) & (productive < share + 0.1)) >= 9, share
    for setting in GRID:
        assert sum(setting.theory.values()) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.nightly)], ids=["a sixth", "all"])
@pytest.mark.parametrize("family", FAMILIES)
def test_theory_is_what_the_simulator_does(family: str, every: int) -> None:
    """Every share in the settings of a family, with 300 failures in each of 20 replications."""
    compare(family, 300, 20, every)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("family", [name for name in FAMILIES if not any(each.known for each in FAMILIES[name])])
def test_exact_theory_is_what_the_simulator_does_at_length(family: str) -> None:
    """Where theory is exact, the same with eight times as many failures, and intervals a third as wide."""
    compare(family, 1500, 32)

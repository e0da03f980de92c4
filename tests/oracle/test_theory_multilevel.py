"""The engine against closed forms of nested saves: two and three levels, drains, and copies in the memory of pairs.

Every tolerance comes from the spread of independent replications, by Student's law, and from what the ends of a run can
hold: less than one pattern of saves and one restart. Theory's number is computed here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

from ettrick.sim.formulas.goodput import expected_shares
from ettrick.sim.policies.contracts import Bucket
from tests.cases import cases
from tests.harness import exact, prepared, results_of
from tests.intervals import rival_seed
from tests.oracle.theory.multilevel import in_memory_shares, multilevel_shares, restart_loss_rate
from tests.pace import SEED, one_in, sample

if TYPE_CHECKING:
    from ettrick import sim

REPLICATIONS = 16

FAULTS = sample(800)

"""Mean faults of a run."""

LIMIT = float(stats.t.isf(1e-5 / 2, REPLICATIONS - 1))

"""Half width of an interval in standard errors: with five shares a false alarm in 20,000 tests."""

NAMES = {
    "productive": [Bucket.PRODUCTIVE],
    "checkpoint_stall": [Bucket.CHECKPOINT_STALL],
    "lost_work": [Bucket.LOST_WORK],
    "detection": [Bucket.DETECTION],
    "restart": [Bucket.INITIALIZE, Bucket.RESTORE],
}


class Setting(NamedTuple):
    """A pattern of saves and what it meets [s]; faults of each class by the mean time between them."""

    counts: tuple[int, ...]
    writes: tuple[float, ...]
    mttis: tuple[float, ...]
    restarts: tuple[float, ...]
    detection: float = 0.0
    drains: tuple[float, ...] = (0.0, 0.0, 0.0)
    interval: float = 100.0

    @property
    def rates(self) -> list[float]:
        """Faults of each class [1/s]."""
        return [1 / mtti for mtti in self.mttis]

    @property
    def horizon(self) -> float:
        """A run of so many faults [s]."""
        return FAULTS / sum(self.rates)

    def theory(self, **changes: Any) -> dict[str, float]:
        """Return the expected shares, with something else in place if a test asks what a mistake would give."""
        levels = len(self.writes)
        arguments: dict[str, Any] = {
            "interval": self.interval,
            "counts": self.counts,
            "writes": self.writes,
            "rates": self.rates,
            "restarts": self.restarts,
            "downtimes": [self.detection] * levels,
            "drains": self.drains[:levels],
        }
        return multilevel_shares(**{**arguments, **changes})

    def case(self) -> sim.Prepared:
        """Return a job of four nodes: software ends processes, reboots empty memory, lost nodes take their disks."""
        stores = ["host", "remote"] if len(self.writes) == 2 else ["host", "disk", "remote"]
        spacings = np.cumprod([self.interval, *self.counts]).tolist()
        initialize = min(self.restarts)
        rows = zip(stores, spacings, self.writes, self.drains, self.restarts, strict=False)
        tiers = [
            {"store": store, "interval": exact(spacing), "stall": exact(write), "write": exact(drain)}
            | {"restore": exact(restart - initialize)}
            for store, spacing, write, drain, restart in rows
        ]
        laws = [{"use": "exponential", "mean": exact(mtti)} for mtti in self.mttis]
        failures = [
            {"use": "job", "name": "software", "law": laws[0]},
            {"use": "job", "name": "reboot", "damage": "reboot", "law": laws[1]},
        ]
        if len(laws) == 3:
            law = {"use": "exponential", "mean": exact(4 * self.mttis[2])}
            failures.append({"use": "component", "name": "node", "part": "node", "law": law})
        return prepared(
            cluster={"nodes": 8, "gpus_per_node": 1, "fabric": {"rails": 1}},
            jobs=[{"name": "job", "gpus": 4}],
            horizon=exact(self.horizon),
            failures=failures,
            checkpoint={"tiers": tiers},
            detection={"time": exact(self.detection)},
            recovery={"use": "hot-spare", "initialize": exact(initialize)},
            repair={"time": "1 s"},
            seed=SEED,
        )


def shares_of(case: sim.Prepared) -> np.ndarray[Any, Any]:
    """Return the shares in `NAMES` of each replication, shape (replications, 5)."""
    jobs = [result.jobs[0] for result in results_of(case, REPLICATIONS)]
    return np.array([[sum(job.buckets[one] for one in NAMES[name]) / job.requested for name in NAMES] for job in jobs])


def limits(table: np.ndarray[Any, Any], ends: float) -> np.ndarray[Any, Any]:
    """Return how far the mean shares may be from theory: sampling, and what the `ends` of a run hold as a share."""
    found: np.ndarray[Any, Any] = LIMIT * table.std(axis=0, ddof=1) / math.sqrt(REPLICATIONS) + ends
    return found


def ends_of(setting: Setting) -> float:
    """Return what the ends of a run hold of its length: one pattern with its saves, and one restart with its faults."""
    spacings = np.cumprod([1, *setting.counts])
    pattern = setting.interval * spacings[-1] + sum(spacings[-1] / spacings * setting.writes)
    total = sum(setting.rates)
    return float((pattern + math.expm1(total * max(setting.restarts)) / total + setting.detection) / setting.horizon)


# By what is left: of a job that hardly ever fails, to one that does little else.
SETTINGS = {
    "light": Setting((4,), (1.0, 10.0), (50_000.0, 200_000.0), (20.0, 100.0)),
    "software mostly": Setting((10,), (1.0, 20.0), (2_000.0, 40_000.0), (20.0, 100.0)),
    "reboots mostly": Setting((3,), (2.0, 10.0), (20_000.0, 2_000.0), (20.0, 100.0)),
    "middling": Setting((4,), (5.0, 30.0), (1_000.0, 4_000.0), (20.0, 100.0)),
    "heavy": Setting((3,), (5.0, 30.0), (500.0, 800.0), (20.0, 120.0)),
    "extreme": Setting((2,), (5.0, 30.0), (200.0, 300.0), (20.0, 100.0)),
    "detection": Setting((4,), (5.0, 30.0), (600.0, 900.0), (20.0, 200.0), detection=400.0),
    "three levels, light": Setting((4, 3), (1.0, 5.0, 20.0), (5_000.0, 10_000.0, 40_000.0), (20.0, 50.0, 200.0)),
    "three levels, heavy": Setting(
        (3, 2), (5.0, 20.0, 60.0), (600.0, 1_500.0, 4_000.0), (20.0, 50.0, 200.0), detection=30.0
    ),
}


@pytest.mark.parametrize("name", one_in(4, SETTINGS))
def test_every_share_of_nested_saves_is_that_of_theory(name: str) -> None:
    """Progress, stalls, lost work, detection and restart; and mistakes that must show do show.

    They are: twice the faults, faults that all find their copy in memory, and saves of the highest level for nothing.
    """
    setting = SETTINGS[name]
    table = shares_of(setting.case())
    theory = setting.theory()
    allowed = limits(table, ends_of(setting))
    apart = table.mean(axis=0) - np.array([theory[share] for share in NAMES])
    assert np.all(np.abs(apart) <= allowed), dict(zip(NAMES, (apart / allowed).round(2), strict=True))
    kindly = [sum(setting.rates), *[0.0] * (len(setting.writes) - 1)]
    mistakes = {
        "twice the faults": setting.theory(rates=[2 * rate for rate in setting.rates]),
        "all in memory": setting.theory(rates=kindly),
        "free saves": setting.theory(writes=(*setting.writes[:-1], 0.0)),
    }
    for mistake, wrong in mistakes.items():
        away = np.abs(table.mean(axis=0) - np.array([wrong[share] for share in NAMES]))
        assert np.any(away > allowed), mistake


def test_the_settings_are_from_light_to_extreme() -> None:
    """What is left of the time goes from 0.95 down to 0.2."""
    left = sorted(setting.theory()["productive"] for setting in SETTINGS.values())
    assert left[0] < 0.2
    assert left[-1] > 0.95


@pytest.mark.parametrize("scale", one_in(3, [1, 4, 16]))
def test_drains_of_nested_saves_are_right_to_first_order(scale: int) -> None:
    """Copies that take a while to complete cost what theory says, to the square of the faults in a drain."""
    setting = Setting((4,), (2.0, 10.0), (scale * 2_000.0, scale * 8_000.0), (20.0, 100.0), drains=(60.0, 300.0))
    table = shares_of(setting.case())
    faults = sum(setting.rates) * max(setting.drains)
    allowed = limits(table, ends_of(setting))
    theory = setting.theory()
    apart = table.mean(axis=0) - np.array([theory[share] for share in NAMES])
    assert np.all(np.abs(apart) <= allowed + faults**2)
    if scale == 16:
        # Without drains it would be wrong.
        assert abs(table.mean(axis=0)[0] - setting.theory(drains=None)["productive"]) > allowed[0]


@cases("mtti", [1e5, 3600.0, 600.0, 60.0])
@cases("drain", [0.0, 200.0])
def test_one_level_is_the_theory_of_one_store(mtti: float, drain: float) -> None:
    """With one level all shares are those of `expected_shares`, from light to nothing left of progress."""
    ours = multilevel_shares(600.0, [], [30.0], [1 / mtti], [120.0], [60.0], [drain])
    assert ours == pytest.approx(expected_shares(600.0, 30.0, mtti, 120.0, 60.0, drain), abs=1e-12)


@cases("levels", [2, 3, 4])
def test_levels_saved_together_are_one(levels: int) -> None:
    """Levels that are saved at the same instants and read in the same time are one, with all writes and all rates."""
    rates = [1 / (1000.0 * (level + 1)) for level in range(levels)]
    writes = [10.0 * (level + 1) for level in range(levels)]
    ours = multilevel_shares(500.0, [1] * (levels - 1), writes, rates, [60.0] * levels, [30.0] * levels)
    assert ours == pytest.approx(expected_shares(500.0, sum(writes), 1 / sum(rates), 60.0, 30.0), abs=1e-12)


def played(setting: Setting, downtimes: list[float], faults: int, number: int) -> dict[str, float]:
    """Return the shares of so many faults one after another, from what each level holds, without any formula."""
    generator = rival_seed(number)
    rates, levels = np.array(setting.rates), len(setting.writes)
    gaps = generator.exponential(1 / rates.sum(), faults).tolist()
    classes = generator.choice(levels, size=faults, p=rates / rates.sum()).tolist()
    spacings = np.cumprod([1, *setting.counts]).tolist()
    held: list[int] = [0] * levels
    place = ready = 0.0
    spent = dict.fromkeys(NAMES, 0.0)
    until = 0.0
    for gap, worst in zip(gaps, classes, strict=True):
        if gap < until:
            # It comes in a downtime, and the restart is from where the worst of the two says.
            until -= gap
        else:
            left = gap - until
            until = downtimes[worst]
            spent["detection"] += until
            restarted = min(left, ready)
            spent["restart"] += restarted
            left -= restarted
            while left > 0:
                stepped = min(left, setting.interval)
                spent["productive"] += stepped
                left -= stepped
                due = [level for level in range(levels) if (place + 1) % spacings[level] == 0]
                stall = sum(setting.writes[level] for level in due)
                spent["checkpoint_stall"] += min(left, stall)
                left -= stall
                if left > 0:
                    place += 1
                    for level in due:
                        held[level] = int(place)
        held[:worst] = [-1] * worst
        place = max(held[worst:])
        ready = setting.restarts[held.index(int(place))]
    total = sum(spent.values())
    done = place * setting.interval
    spent["lost_work"], spent["productive"] = spent["productive"] - done, done
    return {name: seconds / total for name, seconds in spent.items()}


@pytest.mark.parametrize(
    ("setting", "downtimes"),
    [
        (Setting((4,), (5.0, 30.0), (500.0, 900.0), (20.0, 200.0)), [600.0, 100.0]),
        (Setting((3, 2), (5.0, 30.0, 60.0), (900.0, 1_200.0, 3_000.0), (20.0, 100.0, 300.0)), [0.0, 50.0, 20.0]),
        (Setting((1, 2), (5.0, 30.0, 60.0), (900.0, 1_200.0, 3_000.0), (20.0, 100.0, 50.0)), [0.0, 10.0, 200.0]),
        (
            Setting((3, 2, 2), (5.0, 3.0, 20.0, 10.0), (900.0, 1_200.0, 3_000.0, 6_000.0), (20.0, 100.0, 50.0, 200.0)),
            [0.0, 10.0, 20.0, 0.0],
        ),
    ],
    ids=["two", "three", "three, two at once", "four"],
)
def test_up_to_four_levels_event_by_event(setting: Setting, downtimes: list[float]) -> None:
    """A play of 6,000 faults that knows only what each level holds; downtimes of their own for each class."""
    runs = [played(setting, downtimes, 6_000, number) for number in range(REPLICATIONS)]
    table = np.array([[run[name] for name in NAMES] for run in runs])
    theory = setting.theory(downtimes=downtimes, drains=None)
    apart = table.mean(axis=0) - np.array([theory[share] for share in NAMES])
    assert np.all(np.abs(apart) <= limits(table, ends_of(setting) * FAULTS / 6_000))


@pytest.mark.parametrize(
    ("life", "clique"),
    one_in(3, [(200_000.0, 2), (15_000.0, 2), (15_000.0, 3)]),
    ids=["light, pairs", "heavy, pairs", "heavy, threes"],
)
def test_copies_in_memory(life: float, clique: int) -> None:
    """Twelve nodes hold each other's shards in pairs or threes; a node lost in the restart of its mate loses both.

    How often the store outside is read, and all shares, are right to the square of the failures in a restart.
    """
    nodes, restart, detection = 12, 150.0, 50.0
    failing = nodes / life
    horizon = FAULTS / failing
    case = prepared(
        cluster={"nodes": 40, "gpus_per_node": 1, "fabric": {"rails": 1}},
        jobs=[{"name": "job", "gpus": nodes}],
        horizon=exact(horizon),
        failures=[
            {"use": "component", "name": "node", "part": "node", "law": {"use": "exponential", "mean": exact(life)}}
        ],
        checkpoint={
            "tiers": [
                {"store": "peer-host", "clique": clique, "interval": "60 s", "stall": "1 s", "write": "0 s"}
                | {"restore": "1 s"},
                {"store": "remote", "interval": "600 s", "stall": "20 s", "write": "0 s", "restore": "200 s"},
            ]
        },
        detection={"time": exact(detection)},
        recovery={"use": "hot-spare", "initialize": exact(restart)},
        repair={"time": "1 s"},
        seed=SEED,
    )
    jobs = [result.jobs[0] for result in results_of(case, REPLICATIONS)]
    table = np.array([[sum(job.buckets[one] for one in NAMES[name]) / job.requested for name in NAMES] for job in jobs])
    theory = in_memory_shares(60.0, 10, [1.0, 20.0], [restart + 1.0, restart + 200.0], nodes, clique, life, detection)
    apart = np.abs(table.mean(axis=0) - np.array([theory[share] for share in NAMES]))
    several = (failing * (restart + detection)) ** 2
    allowed = limits(table, (600.0 + 30.0 + restart + 250.0) / horizon)
    assert np.all(apart <= allowed + several)
    losses = restart_loss_rate(nodes, clique, life, restart + 1.0, detection)
    # Until the first save after that another failure reads the store outside again.
    expected = losses * math.exp(failing * 61.0) * horizon * REPLICATIONS
    seen = sum(job.restores.get("remote", 0) for job in jobs)
    # A Poisson count: 4.5 standard deviations are a false alarm in 100,000.
    assert abs(seen - expected) <= 4.5 * math.sqrt(expected + 1) + several * expected

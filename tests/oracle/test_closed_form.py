"""Presets of recovery in the simulator against their closed form: every bucket, from light failures to heavy ones.

16,384 GPUs with Llama 3's failures, so many spares that nobody waits, and repairs short enough to keep them. Each
tolerance is Student's quantile of the mean of independent replications, what the first start and the horizon's edge can
hold, and, of several stores, what the form says that it errs by.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.sim.policies.recovery.base import RestartPhase
from ettrick.sim.scenario.laws import Fixed
from tests.harness import prepared, results_of
from tests.intervals import Z, student
from tests.pace import SEED, one_in
from tests.typed import present

DAY = 86400.0

HORIZON, REPLICATIONS = 30 * DAY, 16

RESTART = ("reschedule", "initialize", "restore")


def of_preset(name: str, scale: float) -> sim.Prepared:
    """Return the scenario of the comparison with a preset and its failures at a scale."""
    changes = [f"recovery.use={name}", f"failures.0.scale={scale}", "spares.hot=500", "repair.time=2 h", f"seed={SEED}"]
    return sim.prepare(sim.load(sim.find("recovery-16k"), changes))


def simulated(case: sim.Prepared, replications: int = REPLICATIONS) -> tuple[dict[str, float], dict[str, float]]:
    """Return mean and standard error of the shares, by the names of the closed form."""
    results = [result.jobs[0] for result in results_of(case, replications)]
    rows = np.array([job.buckets / job.requested for job in results])
    columns = {name: [sim.JOB_BUCKETS.index(part) for part in (RESTART if name == "restart" else (name,))] for name in (
        "productive", "checkpoint_stall", "lost_work", "detection", "restart", "starved")}  # fmt: skip
    sums = {name: rows[:, places].sum(axis=1) for name, places in columns.items()}
    error = {name: float(np.std(row, ddof=1)) / math.sqrt(replications) for name, row in sums.items()}
    return {name: float(row.mean()) for name, row in sums.items()}, error


@pytest.mark.parametrize(
    ("preset", "scale"),
    one_in(
        2,
        [
            ("slurm-requeue", 1.0),
            ("slurm-requeue", 3.0),
            ("k8s-jobset", 1.0),
            ("k8s-jobset", 3.0),
            ("nvrx-in-job", 0.3),
            ("nvrx-in-job", 2.0),
            ("nvrx-in-process", 1.0),
            ("gemini-in-memory", 1.0),
            ("gemini-in-memory", 3.0),
            ("byterobust-warm-standby", 2.0),
        ],
    ),
)
def test_a_preset_is_its_closed_form(preset: str, scale: float) -> None:
    """Each bucket, within its own tolerance; the closed form of half the failures is outside."""
    case = of_preset(preset, scale)
    closed = sim.closed_form(case)
    mean, error = simulated(case)
    assert mean["starved"] == 0.0, "nobody waits for nodes"
    # The first start, and the work since the last save, that is productive until somebody loses it.
    edge = 1200 / HORIZON
    several = 0.0 if "several stores" not in closed.form else 0.001 if present(closed.ettr) > 0.9 else 0.01
    for name, share in closed.shares.items():
        assert abs(mean[name] - share) <= student(REPLICATIONS) * error[name] + edge + several * (
            name != "detection"
        ), name
    lighter = present(sim.closed_form(of_preset(preset, scale / 2)).ettr)
    assert abs(mean["productive"] - lighter) > Z * error["productive"] + edge


def test_losses_by_cause_are_those_of_the_ledger() -> None:
    """What the ledger of the simulator charges to each cause is what the closed form sees, for the five dearest."""
    case = of_preset("slurm-requeue", 2.0)
    closed = sim.closed_form(case)
    exact = present(closed.waste)["exact"]
    jobs = (result.jobs[0] for result in results_of(case, REPLICATIONS))
    losses = np.array([job.totals.sum(axis=0) / job.requested for job in jobs])
    dearest = sorted(
        (name for name in exact if "lost_work" in exact[name]), key=lambda name: -sum(exact[name].values())
    )
    names = [source.name for source in case.sources]
    for name in dearest[:5]:
        column = losses[:, :, 1 + names.index(name)]
        for bucket, parts in (("lost_work", ("lost_work",)), ("detection", ("detection",)), ("restart", RESTART)):
            found = column[:, [sim.JOB_BUCKETS.index(part) for part in parts]].sum(axis=1)
            error = float(np.std(found, ddof=1)) / math.sqrt(REPLICATIONS)
            # Who was known first ends the wait; whoever came first is charged for it.
            slack = 0.1 * exact[name][bucket] if bucket == "detection" else 0.0
            assert (
                abs(found.mean() - exact[name][bucket]) <= student(REPLICATIONS) * error + 1200 / HORIZON / 5 + slack
            ), (name, bucket)


def two_classes(scale: float, law: dict[str, Any]) -> sim.Prepared:
    """Return a job of two kinds of failures with restarts of a law after the second, at a scale of their rates."""
    phases = [{"name": "always", "time": "1 min"}, {"name": "diagnosis", "time": law, "faults": ["hang"]}]
    return prepared(
        horizon=f"{400 / scale} d",
        jobs=[{"name": "job", "gpus": 2}],
        failures=[
            {"use": "job", "name": "bug", "rate": f"{8 * scale} per job-d", "detection": "20 s"},
            {"use": "job", "name": "hang", "effect": "hang", "rate": f"{4 * scale} per job-d", "detection": "10 min"},
        ],
        checkpoint={
            "tiers": [{"interval": "10 min", "mode": "async", "stall": "5 s", "write": "30 s", "restore": "20 s"}]
        },
        recovery={"use": "ladder", "rungs": [{"name": "only", "keeps": "hosts", "launch": phases}]},
        repair={"time": "0 s"},
        seed=SEED,
    )


@pytest.mark.parametrize("scale", one_in(3, [1.0, 4.0, 10.0]))
def test_random_restarts_by_class(scale: float) -> None:
    """Exact for one store: exponential diagnoses of 20 min after every third failure, light to heavy."""
    case = two_classes(scale, {"use": "exponential", "mean": "20 min"})
    closed = sim.closed_form(case)
    assert closed.form == "renewal, classes of failures"
    mean, error = simulated(case, 12)
    for name, share in closed.shares.items():
        assert abs(mean[name] - share) <= student(12) * error[name] + 3000 * scale / (400 * DAY), name
    if scale > 1:
        fixed = present(sim.closed_form(two_classes(scale, {"use": "fixed", "value": "20 min"})).ettr)
        assert abs(mean["productive"] - fixed) > Z * error["productive"], "the mean of a restart does not tell"


def test_the_span_of_a_fixed_time_is_that_time() -> None:
    """What the exact forms rest on: nothing interrupts a time x with the probability exp(-rate x)."""
    assert RestartPhase(Fixed.from_seconds(value=300.0)).survival(1 / 300) == pytest.approx(math.exp(-1), rel=1e-12)


def test_failures_void_saves_that_are_on_their_way() -> None:
    """Reboots find the newest remote save older where others cut saves off: 15 min of drain, a failure an hour."""

    def case(write: str) -> sim.Prepared:
        host = {"store": "host", "interval": "5 min", "stall": "2 s", "write": "10 s", "restore": "60 s"}
        remote = {"store": "remote", "interval": "100 min", "stall": "20 s", "write": write, "restore": "5 min"}
        return prepared(
            horizon="80 d",
            jobs=[{"name": "job", "gpus": 2}],
            failures=[
                {"use": "job", "name": "soft", "rate": "24 per job-d"},
                {"use": "job", "name": "hard", "damage": "reboot", "rate": "4 per job-d"},
            ],
            detection={"time": "20 s"},
            checkpoint={"tiers": [host, remote]},
            recovery={"use": "hot-spare", "initialize": "0 s"},
            repair={"time": "0 s"},
            seed=SEED,
        )

    drained = case("15 min")
    wanted = sim.closed_form(drained).shares["lost_work"]
    mean, error = simulated(drained, 12)
    assert abs(mean["lost_work"] - wanted) <= student(12) * error["lost_work"] + 0.005
    # If none were cut off, each would be as much older as its drain takes.
    older = sim.closed_form(case("0 s")).shares["lost_work"] + 4 / DAY * 900.0
    assert mean["lost_work"] > older + Z * error["lost_work"] + 0.005

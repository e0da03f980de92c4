"""The knobs of AIReSim (arXiv 2603.07041), by their names there, as a scenario of ours on a smaller cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ettrick.sim.policies.contracts import Bucket
from tests.harness import prepared, results_of

if TYPE_CHECKING:
    from ettrick import sim

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0

# Its servers give up by blames: 5 within 7 days, or by points.
THRESHOLD: dict[str, Any] = {"use": "threshold", "failures": 5, "window": "7 d"}

SCORED: dict[str, Any] = {"use": "score", "start": 100, "blame_costs": 30, "regains": 10, "floor": 0}

NEVER: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Knobs:
    """Parameters by AIReSim's names; times [min] unless the name or the comment says otherwise.

    Sizes are those of a small cluster, all the rest are its defaults. What follows ``seed`` it does not have.
    """

    random_failure_rate: float = 0.01  # per node-day
    systematic_failure_rate_multiplier: float = 5.0
    systematic_failure_fraction: float = 0.15
    recovery_time: float = 20.0
    host_selection_time: float = 3.0
    preemption_wait_time: float = 20.0
    job_size: int = 128
    job_length: float = 64.0  # days
    warm_standbys: int = 4
    working_pool_size: int = 140
    spare_pool_size: int = 0
    auto_repair_time: float = 120.0
    manual_repair_time: float = 2880.0
    prob_auto_to_manual: float = 0.8
    auto_repair_fail_prob: float = 0.4
    manual_repair_fail_prob: float = 0.2
    failure_distribution: str = "exponential"
    weibull_shape: float = 1.0
    lognormal_sigma: float = 1.0
    diagnosis_uncertainty: float = 0.0
    removal: tuple[dict[str, Any], ...] = NEVER
    selection: str = "longest-idle"
    seed: int = 1
    repair_law: str = "exponential"
    interval: float = 1.0 / 60.0  # of checkpoints, which take no time
    horizon: float = 2000.0  # days

    def life(self) -> dict[str, Any]:
        """Return the law of a node's life, of the same mean whatever the law."""
        mean = f"{1 / self.random_failure_rate!r} d"
        shapes: dict[str, dict[str, Any]] = {
            "exponential": {},
            "weibull": {"shape": self.weibull_shape},
            "lognormal": {"sigma": self.lognormal_sigma},
        }
        return {"use": self.failure_distribution, "mean": mean, **shapes[self.failure_distribution]}

    def failures(self) -> list[dict[str, Any]]:
        """Return the sources: what hits every node, and what hits the bad ones beside it."""
        random = {"use": "component", "name": "random", "part": "node", "law": self.life(), "clock": "busy"}
        if not self.systematic_failure_fraction:
            return [random]
        rate = self.random_failure_rate * self.systematic_failure_rate_multiplier
        bad = {"use": "defect", "name": "systematic", "rate": f"{rate!r} per node-day", "clock": "busy"}
        return [random, {**bad, "share": self.systematic_failure_fraction, "exact": True}]

    def spares(self) -> dict[str, Any]:
        """Return standbys and the pool that other work has to give up."""
        spares: dict[str, Any] = {"hot": self.warm_standbys}
        if self.spare_pool_size:
            delay = f"{self.preemption_wait_time!r} min"
            spares["cold"] = {"nodes": self.spare_pool_size, "delay": delay, "one_by_one": True, "refills": False}
        return spares

    def repair(self) -> dict[str, Any]:
        """Return the two tiers."""
        e, auto, manual = self.prob_auto_to_manual, self.auto_repair_fail_prob, self.manual_repair_fail_prob
        kind, value = self.repair_law, "mean" if self.repair_law == "exponential" else "value"
        first = {"use": kind, value: f"{self.auto_repair_time!r} min"}
        second = {"use": kind, value: f"{self.manual_repair_time!r} min"}
        return {
            "use": "tiers",
            "tiers": [
                {"name": "automated", "time": first, "escalates": e, "fixes": 1 - auto},
                {"name": "manual", "time": second, "fixes": 1 - manual},
            ],
            "diagnosis": {"finds": 1.0, "blames_other": self.diagnosis_uncertainty},
            "lemons": list(self.removal),
        }

    def prepared(self) -> sim.Prepared:
        """Return the scenario, prepared."""
        nodes = self.working_pool_size + self.spare_pool_size
        return prepared(
            cluster={"nodes": nodes, "gpus_per_node": 1, "fabric": {"rails": 1, "radix": 1024}},
            horizon=f"{self.horizon!r} d",
            jobs=[{"name": "train", "gpus": self.job_size, "work": {"time": f"{self.job_length!r} d"}}],
            failures=self.failures(),
            checkpoint={
                "tiers": [{"interval": f"{self.interval!r} min", "mode": "blocking", "write": "0 s", "restore": "0 s"}]
            },
            recovery={
                "use": "standby",
                "recovery": f"{self.recovery_time!r} min",
                "selection": f"{self.host_selection_time!r} min",
                "pools": ["idle", "cold", "spare"] if self.spare_pool_size else ["idle", "spare"],
                "exposed": False,
            },
            spares=self.spares(),
            repair=self.repair(),
            scheduler={"use": "fifo", "pick": self.selection},
            seed=self.seed,
        )


@dataclass(frozen=True)
class Outcome:
    """What AIReSim reports of a run, from one of ours; times [s]."""

    result: sim.Result

    @property
    def job(self) -> sim.JobResult:
        """The job."""
        return self.result.jobs[0]

    @property
    def training_time(self) -> float:
        """From arrival to end."""
        return self.job.end - self.job.arrival

    @property
    def failures(self) -> int:
        """All failures that hit the job."""
        return sum(self.job.interruptions.values())

    @property
    def systematic(self) -> int:
        """Those of bad nodes for their own reason."""
        return self.job.interruptions.get(2, 0)

    def seconds(self, bucket: Bucket) -> float:
        """Return the time of the whole job in a bucket."""
        return float(self.job.buckets[bucket]) / self.job.gpus

    def selections(self, each: float) -> float:
        """Return the number of host selections that take `each` [s]."""
        return self.seconds(Bucket.RESCHEDULE) / each

    def preemptions(self, each: float) -> float:
        """Return the number of spares that were waited for, `each` [s], if the job never waited for a repair."""
        return self.seconds(Bucket.STARVED) / each


def play(knobs: Knobs, replications: int = 1) -> list[Outcome]:
    """Return the outcomes of the first replications."""
    return list(map(Outcome, results_of(knobs.prepared(), replications)))

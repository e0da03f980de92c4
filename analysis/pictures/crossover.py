r"""When replicas that leave one by one pay: the reconfiguration time at which a restart in place does as well.

A node fails. A job that *restarts* loses, with all its GPUs, the restart u, the restore r and the work since the last
durable checkpoint: half of an interval tau and of a write b, and the drain w, on average. A job of R *elastic* replicas
loses the one that was hit for its absence a, the others for the time c in which they reconfigure and about one step T,
and all for the stall j when it is back. To first order elasticity pays if

.. math:: \frac{a}{R} + \frac{R - 1}{R} (c + T) + j < u + r + \frac{\tau + b}{2} + w

Detection is the same for both. Below, both sides are exact as far as `sim.formulas.goodput` and
`sim.formulas.elastic` are,
or simulated on the same failures. All times [s].
"""

from __future__ import annotations

import argparse
import bisect
import functools
import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import sim
from analysis.amounts import empty_table
from analysis.terminal import console
from sim import catalog, units
from sim.formulas import expected_shares
from sim.formulas.elastic import elastic_shares

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt
    from rich.console import Console

    FloatArray = npt.NDArray[np.float64]

# ----------------------------------------
# One job, run in two ways: its replicas leave one by one, or all of it restarts in place.

_SPARES = 16

"""Hot spares: with repairs of an hour a node is at hand whenever one fails."""


@dataclass(frozen=True)
class Rivals:
    """One job on one cluster, run in two ways: its replicas leave one by one, or all of it restarts in place.

    Parameters
    ----------
    replicas
        Replicas that can leave alone, R [-]; at least 2.
    mtti, others
        Mean time between the failures that take a node, and between those that strike all ranks and restart both jobs
        [s].
    detection
        Time until a failure is known [s].
    restart
        Restart of the whole job, its restore left out, u [s]; at most `absence`.
    absence
        Time until a replica with new nodes is ready to join, a [s].
    rejoin
        Stall of the others when it joins, j [s].
    interval, write, drain, restore
        Computing time between saves, tau, blocking time of one, from its end to durability, w, and restore, r [s].
    step
        Time of a step, T [s]; intervals are rounded up to whole steps.
    nodes, gpus_per_node
        Size of the job in the simulation [-]; the formulas do not need it.
    """

    replicas: int
    mtti: float
    others: float
    detection: float
    restart: float
    absence: float
    rejoin: float
    interval: float
    write: float
    drain: float
    restore: float
    step: float
    nodes: int
    gpus_per_node: int = 8

    def __post_init__(self) -> None:
        """Refuse what neither formula nor simulation describes."""
        if self.replicas < 2:
            message = f"replicas must be at least 2: one alone leaves nobody behind, got {self.replicas}"
            raise ValueError(message)
        if self.absence < self.restart:
            message = f"absence must be at least restart, which is a part of it: {self.absence} s and {self.restart} s"
            raise ValueError(message)

    @property
    def stepping(self) -> float:
        """Computing time between saves, in whole steps [s]."""
        return math.ceil(self.interval / self.step - 1e-9) * self.step if self.step else self.interval

    @property
    def restarted(self) -> float:
        """Expected share of productive time of the job that restarts [-]."""
        rate = 1 / self.mtti + 1 / self.others
        wait = self.restart + self.restore
        return expected_shares(self.stepping, self.write, 1 / rate, wait, self.detection, self.drain)["productive"]

    def elastic(self, reconfigure: float) -> float:
        """Return the expected share of productive time of the elastic job for a reconfiguration time [-]."""
        shares = elastic_shares(
            self.stepping,
            self.write,
            self.mtti,
            self.replicas,
            stall=reconfigure,
            # A replica that is ready before the others go on waits for them.
            absence=max(self.absence, reconfigure),
            rejoin=self.rejoin,
            restart=self.restart + self.restore,
            downtime=self.detection,
            drain=self.drain,
            step=self.step,
            others=self.others,
        )
        return shares["productive"]

    @property
    def restart_cost(self) -> float:
        """What a failure of a node costs the job that restarts, to first order and without its detection [s]."""
        return self.restart + self.restore + (self.stepping + self.write) / 2 + self.drain

    def elastic_cost(self, reconfigure: float) -> float:
        """Return what it costs the elastic job, in seconds of all its GPUs, to first order and without detection."""
        victim = max(self.absence, reconfigure) + self.step / 2
        return (victim + (self.replicas - 1) * (reconfigure + self.step)) / self.replicas + self.rejoin

    def gain(self, reconfigure: float) -> float:
        """Return by how much the elastic job's expected share of productive time is above the other's [-]."""
        return self.elastic(reconfigure) - self.restarted

    def prepared(self, horizon: float, seed: int, reconfigure: float | None = None) -> sim.Prepared:
        """Return the job that restarts, or with a reconfiguration time [s] the elastic one, ready to run.

        The elastic job restarts as the other one does, and what its absence takes beyond that is to catch up.
        """
        recovery: dict[str, Any] = {"use": "hot-spare", "initialize": _text(self.restart)}
        if reconfigure is not None:
            recovery |= {
                "use": "shrink-rejoin",
                "reconfigure": _text(reconfigure),
                "catch_up": _text(self.absence - self.restart),
                "rejoin": _text(self.rejoin),
            }
        return sim.prepare(sim.parse(self._document(horizon, seed) | {"recovery": recovery}))

    def _document(self, horizon: float, seed: int) -> dict[str, Any]:
        """Return the scenario but for its recovery; replicas are whole nodes side by side."""
        width = self.nodes // self.replicas
        job: dict[str, Any] = {"name": "job", "gpus": width * self.replicas * self.gpus_per_node}
        job["parallelism"] = {"tensor": self.gpus_per_node, "pipeline": width, "data": self.replicas}
        if self.step:
            job["step_time"] = _text(self.step)
        # The rate of a node is that of the nodes which the job has.
        life = {"law": "exponential", "mean": _text(self.mtti * width * self.replicas)}
        failures: list[dict[str, Any]] = [{"use": "component", "name": "node", "part": "node", "law": life}]
        if math.isfinite(self.others):
            law = {"law": "exponential", "mean": _text(self.others)}
            # A hang strikes all ranks, for nobody knows whose fault it is; an error would send one replica away.
            failures.append({"use": "job", "name": "others", "law": law, "fault": "hang"})
        saves = {"interval": self.stepping, "stall": self.write, "write": self.drain, "restore": self.restore}
        hosts = {"nodes": width * self.replicas + _SPARES, "gpus_per_node": self.gpus_per_node}
        return {
            "name": "crossover",
            "cluster": {"name": "crossover", **hosts, "fabric": {"rails": self.gpus_per_node, "radix": 1024}},
            "horizon": _text(horizon),
            "jobs": [job],
            "failures": failures,
            "detection": {"time": _text(self.detection)},
            "checkpoint": {"tiers": [{"mode": "async", **{key: _text(value) for key, value in saves.items()}}]},
            "spares": {"hot": _SPARES},
            "repair": {"time": "1 h"},
            "seed": seed,
        }


def _text(seconds: float) -> str:
    """Return a time as text that is read back to the same number."""
    return f"{float(seconds)!r} s"


# ----------------------------------------
# The rivals of the tables: Llama 3 on 16,384 GPUs with times of recovery presets, and a published run.

GPUS = 16_384

"""GPUs of Llama 3 405B, on 2,048 nodes [-] (arXiv 2407.21783)."""

_NODES = GPUS // 8

_SPAN = 54 * 86400.0

_PLANNED = 47

"""Interruptions that were planned, in the 54 days [-] (arXiv 2407.21783, section 3.3.4)."""

STORES: Mapping[str, str] = {"remote": "a remote store, every 10 min", "peer-host": "a peer's memory, every 2 min"}

"""Where copies of the state are kept, by the names of the stores."""


class Published(NamedTuple):
    """A run of 3,000 steps on 8 nodes of 8 GPUs that was hit every 45 to 75 min, in three ways [s].

    Whole times by live migration, with a restart from a checkpoint every 100 steps, and with torchft.
    """

    migration: float = 405 * 60.0
    restart: float = 818 * 60.0
    elastic: float = 930 * 60.0
    between: float = 3600.0
    steps: int = 3000
    saves: int = 30


PUBLISHED = Published()

"""Llama 4 Scout on 64 H200 (clockwork.io, "Keeping distributed training running through failures", 2026)."""


def at_scale(replicas: int, store: str = "remote") -> Rivals:
    """Return the rivals on 16,384 GPUs at the rates of Llama 3.

    The restart in place is the first rung of `nvrx-in-job`, the absence and the stall of a return are those of
    `torchft-hsdp` for so many replicas, and copies of the state are kept as in `llama3-405b-54d` (``remote``) or in
    `nvrx-in-job` (``peer-host``). Times are means. Both detect in a minute, and any one replica may go on alone.
    """
    restart, tiers, step = _restart()
    absence = _elastic().absence_for(GPUS, _NODES, replicas)
    causes = catalog.bundle("llama3-table5")["causes"]
    of_job = sum(cause["count"] for cause in causes if cause["per"] == "job")
    of_nodes = sum(cause["count"] for cause in causes) - of_job
    tier = tiers[store]
    return Rivals(
        replicas=replicas,
        mtti=_SPAN / of_nodes,
        others=_SPAN / (of_job + _PLANNED),
        detection=60.0,
        restart=restart,
        absence=absence.away,
        rejoin=absence.rejoin,
        interval=units.parse(tier.interval, units.DURATION),
        write=tier.stall,
        drain=tier.write,
        restore=tier.restore,
        step=step,
        nodes=_NODES,
    )


def preset_reconfigure(replicas: int) -> float:
    """Return the reconfiguration time of `torchft-hsdp` on 16,384 GPUs [s]."""
    return float(_elastic().absence_for(GPUS, _NODES, replicas).stall)


def published_case(replicas: int) -> Rivals:
    """Return the rivals of the published run, with replicas of some of its 8 nodes.

    A step takes what it took with live migration, whose own cost of failures so counts as work. A restart, detection
    and restore included, takes what makes the published time of first-order costs: failures did not come while the job
    restarted. A replica restarts alone in the same time.
    """
    step = PUBLISHED.migration / PUBLISHED.steps
    interval = PUBLISHED.steps / PUBLISHED.saves * step
    restart = PUBLISHED.between * (1 - PUBLISHED.migration / PUBLISHED.restart) - interval / 2
    return Rivals(
        replicas=replicas,
        mtti=PUBLISHED.between,
        others=math.inf,
        detection=0.0,
        restart=restart,
        absence=restart,
        rejoin=0.0,
        interval=interval,
        write=0.0,
        drain=0.0,
        restore=0.0,
        step=step,
        nodes=8,
    )


@functools.cache
def _restart() -> tuple[float, dict[str, Any], float]:
    """Return of `nvrx-in-job` its restart [s] and stores by name, and the step of the job [s]."""
    prepared = _prepared("nvrx-in-job")
    recovery: Any = prepared.recovery
    checkpoint: Any = prepared.scenario.checkpoint
    tiers = {tier.store: tier for tier in checkpoint.tiers}
    return sum(recovery.rungs[0].mean_times(GPUS, _NODES)), tiers, prepared.jobs[0].step_time


@functools.cache
def _elastic() -> Any:
    """Return the recovery of `torchft-hsdp`."""
    return _prepared("torchft-hsdp").recovery


def _prepared(preset: str) -> sim.Prepared:
    """Return the scenario of Llama 3 with a recovery preset."""
    changes = (f"recovery={{use: {preset}}}", "checkpoint.from_preset=true")
    return sim.prepare(sim.load(sim.find("llama3-405b-54d"), changes))


# ----------------------------------------
# The crossover of two rivals: by the closed form, and by simulation on the same failures.

_MOST_REPLICAS = 100_000

"""Replicas from which on nobody is asked [-]."""

_DAY = 86400.0


def expected_crossover(rivals: Rivals) -> float | None:
    """Return the reconfiguration time at which both jobs are expected to get as much done [s].

    Returns
    -------
    float or None
        Below it elasticity pays; ``None`` if it does not even with a reconfiguration that takes no time.
    """
    return _root(rivals.gain, _first_bracket(rivals), 1e-6)


def fewest_replicas(rivals_of: Callable[[int], Rivals], reconfigure: float) -> int | None:
    """Return the fewest replicas with which elasticity is expected to pay at a reconfiguration time [-].

    Parameters
    ----------
    rivals_of
        The rivals for a number of replicas.
    reconfigure
        Reconfiguration time [s]. More replicas are better only where it is shorter, together with a rejoin and a step,
        than an absence; beyond that an elastic job loses more the more of it stands still.

    Returns
    -------
    int or None
        ``None`` if no number of replicas pays.
    """
    most = 2
    while rivals_of(most).gain(reconfigure) <= 0:
        if most >= _MOST_REPLICAS:
            return None
        most *= 2
    return bisect.bisect_left(range(most), True, lo=2, key=lambda count: rivals_of(count).gain(reconfigure) > 0)


def _first_bracket(rivals: Rivals) -> float:
    """Return a reconfiguration time of the order of what a restart costs [s], above zero."""
    return rivals.restart + rivals.restore + rivals.interval + rivals.drain + rivals.step


def _root(gain: Callable[[float], float], high: float, tolerance: float) -> float | None:
    """Return the zero of a falling function above zero, or ``None`` if it begins below; `high` is a first guess."""
    from scipy.optimize import brentq

    if gain(0.0) <= 0:
        return None
    while gain(high) > 0:
        high *= 2
    return float(brentq(gain, 0.0, high, xtol=tolerance))


class Crossing(NamedTuple):
    """A crossover that was found by simulation, and its standard error [s]."""

    seconds: float
    error: float


def simulated_crossover(
    rivals: Rivals, replications: int = 24, *, horizon: float = 18 * _DAY, seed: int = 1
) -> Crossing | None:
    """Return the reconfiguration time at which both jobs got as much done on the same failures.

    The root of the mean paired difference D is bracketed to some seconds, and the rest is Newton's step with the slope
    D' found there. By the delta method its standard error is ``s / (sqrt(n) |D'|)``, with s the standard deviation of
    the n differences.

    Parameters
    ----------
    rivals
        The two jobs.
    replications, horizon, seed
        How many runs of either, how long each is [s], and their luck.

    Returns
    -------
    Crossing or None
        ``None`` if the elastic job got less done even with a reconfiguration that takes no time.

    References
    ----------
    A. M. Law, "Simulation Modeling and Analysis", 5th ed. (2015), section 11.2 (common random numbers).
    """
    gains = functools.cache(paired_gains(rivals, replications, horizon=horizon, seed=seed))
    width = _first_bracket(rivals) / 20
    root = _root(lambda seconds: float(gains(seconds).mean()), 20 * width, width)
    if root is None:
        return None
    there = gains(root)
    slope = float(gains(root + width).mean() - there.mean()) / width
    error = float(there.std(ddof=1)) / math.sqrt(replications) / abs(slope)
    return Crossing(root - float(there.mean()) / slope, error)


def paired_gains(rivals: Rivals, replications: int, *, horizon: float, seed: int = 1) -> Callable[[float], FloatArray]:
    """Return the function from a reconfiguration time to what elasticity gains in each replication [-].

    The failures are drawn once, and the job that restarts is run once; for the parameters see `simulated_crossover`.
    """
    rigid = rivals.prepared(horizon, seed)
    traces = [sim.trace(rigid, number) for number in range(replications)]
    theirs = _productive(rigid, traces)
    return lambda seconds: _productive(rivals.prepared(horizon, seed, seconds), traces) - theirs


def _productive(prepared: sim.Prepared, traces: Sequence[Any]) -> FloatArray:
    """Return the share of productive time in each replication, shape (n,) [-]."""
    jobs = [sim.run(prepared, number, trace).jobs[0] for number, trace in enumerate(traces)]
    return np.array([job.buckets[sim.Bucket.PRODUCTIVE] / job.requested for job in jobs])


# ----------------------------------------
# The tables of the crossover: ``python -m analysis.pictures.crossover``.

_MINUTE, _DAY___MAIN__ = 60.0, 86400.0

_REPLICAS = (2, 4, 8, 16, 32, 128)

_RECONFIGURE = (12.0, 100.0, 180.0)

"""That of `torchft-hsdp` on 16,384 and on 98,304 GPUs, and a longer one [s]."""


def main(arguments: list[str] | None = None) -> int:
    """Print the tables and return 0."""
    text = "The reconfiguration time below which elastic replicas do better than a restart in place."
    parser = argparse.ArgumentParser(prog="crossover", description=text)
    parser.add_argument("--replications", type=int, default=24, metavar="N", help="runs for each row (24)")
    parser.add_argument("--days", type=float, default=18.0, metavar="D", help="length of a run (18)")
    options = parser.parse_args(arguments)
    if options.replications < 2:
        parser.error(f"argument --replications: must be at least 2, got {options.replications}")
    out = console(sys.stdout)
    if options.days <= 0:
        parser.error(f"argument --days: must be above 0, got {options.days:g}")
    for store in STORES:
        _print_store(out, store, options.replications, options.days * _DAY___MAIN__)
    _print_published(out)
    return 0


def _print_store(out: Console, store: str, replications: int, horizon: float) -> None:
    """Print the crossovers with copies of the state in one store."""
    first = at_scale(2, store)
    out.print(f"{GPUS:,} GPUs, copies in {STORES[store]}, restart in {first.restart:.0f} s", style="bold")
    table = empty_table("replicas", "away", "closed form", "simulation", "apart", f"at {preset_reconfigure(2):.0f} s")
    for replicas in _REPLICAS:
        rivals = at_scale(replicas, store)
        gain = 100 * rivals.gain(preset_reconfigure(replicas))
        table.add_row(
            str(replicas), f"{rivals.absence:.0f} s", *_found(rivals, replications, horizon), f"{gain:+.2f} pt"
        )
    out.print(table)
    for seconds in _RECONFIGURE:
        fewest = fewest_replicas(lambda count: at_scale(count, store), seconds)
        words = "never pays" if fewest is None else f"pays from {fewest} replicas on"
        out.print(f"  a reconfiguration of {seconds:.0f} s {words}", highlight=False)
    out.print()


def _found(rivals: Rivals, replications: int, horizon: float) -> tuple[str, str, str]:
    """Return both crossovers and how many standard errors they are apart, as text."""
    expected = expected_crossover(rivals)
    seen = simulated_crossover(rivals, replications, horizon=horizon)
    ours = "none" if expected is None else f"{expected:.0f} s"
    if seen is None:
        return ours, "none", ""
    apart = "" if expected is None else f"{(seen.seconds - expected) / seen.error:+.1f} se"
    return ours, f"{seen.seconds:.0f} ± {seen.error:.1f} s", apart


def _print_published(out: Console) -> None:
    """Print what the published times of one run allow, by first-order costs."""
    lost, between = published_case(2).restart_cost, PUBLISHED.between
    ends = [f"{end / 60:.0f} min" for end in (PUBLISHED.migration, PUBLISHED.restart, PUBLISHED.elastic)]
    out.print("64 GPUs: {} by live migration, {} with restarts, {} elastic (published)".format(*ends), style="bold")
    out.print(f"  with restarts a failure costs {lost / 60:.0f} of {between / 60:.0f} min", highlight=False)
    table = empty_table("replicas", "failure costs", "in all", "away to lose", "slower to lose", f"for {ends[2]}")
    for replicas in (2, 4, 8):
        rivals = published_case(replicas)
        cost = rivals.elastic_cost(_MINUTE)
        whole = PUBLISHED.migration / (1 - cost / between)
        # As much longer an absence as makes a failure as dear as a restart.
        away = rivals.absence + replicas * (lost - cost)
        slower = [f"{end / whole - 1:+.0%}" for end in (PUBLISHED.restart, PUBLISHED.elastic)]
        table.add_row(str(replicas), *(f"{time / 60:.0f} min" for time in (cost, whole, away)), *slower)
    out.print(table)
    out.print(
        "  elastic replicas, expected with a minute to reconfigure; to lose against restarts they", highlight=False
    )
    out.print("  have to be away for so long, or each step has to take so much longer", highlight=False)


if __name__ == "__main__":
    sys.exit(main())

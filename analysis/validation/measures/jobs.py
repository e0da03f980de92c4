"""A job that fails against papers and another program: Daly, INRIA, Meta, Llama 3, AIReSim and plain statements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ettrick import sim
from ettrick.analysis.validation.lab import MeasuredQuantity, bare, estimate, seconds
from ettrick.sim import Bucket
from ettrick.sim.formulas.goodput import (
    daly_interval,
    efficiency,
    expected_wallclock,
    first_order_efficiency,
    optimal_interval,
    young_interval,
)
from ettrick.sim.units import DAY, HOUR, MINUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ettrick.analysis.validation.lab import ScenarioRunner
    from ettrick.sim import Prepared, Result


def one_job(
    name: str,
    mtti: float,
    interval: float,
    write: float,
    *,
    horizon: float,
    restore: float = 0.0,
    work: float | None = None,
    recovery: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return plain data of a job that fails as a whole, at a constant rate, and whose saves block it.

    Parameters
    ----------
    name
        Of the scenario and of its one source. Failures are drawn by this name: other names, other failures.
    mtti
        Mean time to interrupt [s]; restarts are exposed to failures.
    interval, write, restore
        Of checkpoints [s].
    horizon
        End of the simulation [s].
    work
        Productive time after which the job is done [s].
    recovery
        Its recovery; at once by default.
    """
    job: dict[str, Any] = {"name": "job", "gpus": 2}
    if work is not None:
        job["work"] = {"time": seconds(work)}
    tier = {"interval": seconds(interval), "mode": "blocking", "write": seconds(write), "restore": seconds(restore)}
    return bare(
        name,
        horizon=seconds(horizon),
        jobs=[job],
        failures=[{"use": "job", "name": name, "law": {"use": "exponential", "mean": seconds(mtti)}}],
        checkpoint={"tiers": [tier]},
        recovery={"use": "hot-spare", "initialize": "0 s"} | (recovery or {}),
    )


# Daly's optimum checkpoint interval and wall clock, by formula and simulated.


DUMP, RESTART = 5 * MINUTE, 10 * MINUTE
WORK = 500 * HOUR


def daly_optimum(_: ScenarioRunner, __: int, *, mtti_min: float, rule: str) -> MeasuredQuantity:
    """Return the best time between two dumps, without the dump [min].

    `rule` is ``higher-order``, ``exact`` or ``first-order``; Daly's first-order optimum is Young's interval less the
    dump.
    """
    mtti = mtti_min * MINUTE
    rules = {
        "higher-order": daly_interval(DUMP, mtti),
        "exact": optimal_interval(DUMP, mtti),
        "first-order": young_interval(DUMP, mtti) - DUMP,
    }
    return MeasuredQuantity(rules[rule] / MINUTE)


def daly_efficiency(_: ScenarioRunner, __: int, *, mtti_min: float) -> MeasuredQuantity:
    """Return the productive share of time at the optimum by formula [-]."""
    mtti = mtti_min * MINUTE
    return MeasuredQuantity(efficiency(optimal_interval(DUMP, mtti), DUMP, mtti, RESTART))


def daly_wallclock(lab: ScenarioRunner, replications: int, *, mtti_min: float) -> MeasuredQuantity:
    """Return the wall clock of 500 h of work at the optimum interval, by formula or simulated [h].

    What theory expects of the simulated job differs from Daly's formula at its ends: it begins with a restart, which
    failures start over, and does not save after its last segment.
    """
    mtti = mtti_min * MINUTE
    interval = optimal_interval(DUMP, mtti)
    formula = expected_wallclock(WORK, interval, DUMP, RESTART, mtti)
    if not replications:
        return MeasuredQuantity(formula / HOUR)
    data = one_job(
        f"daly {mtti_min:g} min",
        mtti,
        interval,
        DUMP,
        horizon=2 * formula,
        work=WORK,
        recovery={"initialize": seconds(RESTART)},
    )
    results = lab.results(lab.scenario(data), replications)
    return estimate((result.jobs[0].end / HOUR for result in results), _expected_end(interval, mtti) / HOUR)


def _expected_end(interval: float, mtti: float) -> float:
    """Return the mean wall clock of the simulated job [s].

    A stretch of length x that starts over until it fits takes M (e^(x/M) - 1) on average, and e^(R/M) times as much
    with a restart R before each attempt: J. T. Daly, FGCS 22 (2006).
    """

    def fits(length: float) -> float:
        return mtti * math.expm1(length / mtti)

    whole = math.ceil(WORK / interval - 1e-9) - 1
    segments = whole * fits(interval + DUMP) + fits(WORK - whole * interval)
    return fits(RESTART) + math.exp(RESTART / mtti) * segments


def daly_gain(lab: ScenarioRunner, replications: int, *, mtti_min: float, factor: float) -> MeasuredQuantity:
    """Return how much productive share the exact optimum has over `factor` times it, on the same failures [-]."""
    mtti = mtti_min * MINUTE
    best = optimal_interval(DUMP, mtti)

    def simulated(interval: float) -> list[float]:
        data = one_job(
            f"daly sweep {mtti_min:g} min",
            mtti,
            interval,
            DUMP,
            horizon=4000 * mtti,
            recovery={"initialize": seconds(RESTART)},
        )
        return lab.ettr(lab.scenario(data), replications)

    pairs = zip(simulated(best), simulated(factor * best), strict=True)
    expected = efficiency(best, DUMP, mtti, RESTART) - efficiency(factor * best, DUMP, mtti, RESTART)
    return estimate((at_best - at_factor for at_best, at_factor in pairs), expected)


# The periods of INRIA's Table 2, by formula, and the waste at the best of them, by formula and simulated.


SAVE, RECOVERY, DOWNTIME = 600.0, 600.0, 60.0
INDIVIDUAL_MTBF = 125 * 365 * DAY

FAILURES = 1000
"""Mean number of failures in a replication [-]."""


def inria_period(_: ScenarioRunner, __: int, *, log2_nodes: int, column: str) -> MeasuredQuantity:
    """Return a column of the table: a time between two checkpoints, checkpoint included, or the platform's MTBF [s].

    `column` is ``mu``, ``young``, ``daly``, ``rfo`` or ``best``. The table's T_daly and T_rfo are the first-order
    periods sqrt(2 (mu + D + R) C) + C and sqrt(2 (mu - D - R) C).
    """
    mtbf = INDIVIDUAL_MTBF / 2**log2_nodes
    columns = {
        "mu": mtbf,
        "young": young_interval(SAVE, mtbf) + SAVE,
        "daly": math.sqrt(2 * (mtbf + DOWNTIME + RECOVERY) * SAVE) + SAVE,
        "rfo": math.sqrt(2 * (mtbf - DOWNTIME - RECOVERY) * SAVE),
        "best": optimal_interval(SAVE, mtbf) + SAVE,
    }
    return MeasuredQuantity(columns[column])


def inria_waste(lab: ScenarioRunner, replications: int, *, log2_nodes: int) -> MeasuredQuantity:
    """Return the share of time that is not productive at the best period, by formula or simulated [-].

    Expected is 1 - (T - C) / ((mu + D) e^(R/mu) (e^(T/mu) - 1)), in the terms of the table.
    """
    mtbf = INDIVIDUAL_MTBF / 2**log2_nodes
    interval = optimal_interval(SAVE, mtbf)
    if not replications:
        return MeasuredQuantity(1 - efficiency(interval, SAVE, mtbf, RECOVERY, DOWNTIME))
    period = interval + SAVE
    expected = 1 - interval / ((mtbf + DOWNTIME) * math.exp(RECOVERY / mtbf) * math.expm1(period / mtbf))
    data = one_job(
        f"inria 2^{log2_nodes}",
        mtbf,
        interval,
        SAVE,
        horizon=FAILURES * mtbf,
        restore=RECOVERY,
        recovery={"reschedule": seconds(DOWNTIME), "exposed": False},
    )
    return estimate((1 - ettr for ettr in lab.ettr(lab.scenario(data), replications)), expected)


# Meta's research clusters: MTTF from a rate, and the ETTR of a large job, by two formulas and simulated.


NODE_FAILURES = 6.5
"""RSC-1: failures per 1000 node-days."""

RSC_RESTART = 5 * MINUTE
RSC_GPUS = 16000

MTTF = 1000 * DAY / (RSC_GPUS / 8 * NODE_FAILURES)
"""Mean time to a failure of any node of a job of 16,000 GPUs, by hand [s]."""


def rsc_mttf(lab: ScenarioRunner, _: int, *, gpus: int) -> MeasuredQuantity:
    """Return the mean time to failure of a job on RSC-1, as its scenario is prepared for the simulator [h]."""
    return MeasuredQuantity(_rsc(lab, HOUR, gpus).jobs[0].mtti / HOUR)


def rsc_ettr(
    lab: ScenarioRunner, replications: int, *, interval_min: float, formula: str = "exact"
) -> MeasuredQuantity:
    """Return the ETTR of a job of 16,000 GPUs on RSC-1 that loses nothing to saves, by formula or simulated [-].

    `formula` is ``exact``, the renewal argument, or ``first-order``, that of the paper.
    """
    interval = interval_min * MINUTE
    formulas = {
        "exact": efficiency(interval, 0.0, MTTF, RSC_RESTART),
        "first-order": first_order_efficiency(interval, 0.0, MTTF, RSC_RESTART),
    }
    expected = formulas[formula]
    if not replications:
        return MeasuredQuantity(expected)
    return estimate(lab.ettr(_rsc(lab, interval, RSC_GPUS), replications), expected)


def rsc_formula_error(lab: ScenarioRunner, replications: int, *, interval_min: float) -> MeasuredQuantity:
    """Return by what share of the simulated ETTR the formula of the paper is below it [-]."""
    interval = interval_min * MINUTE
    formula = first_order_efficiency(interval, 0.0, MTTF, RSC_RESTART)
    expected = 1 - formula / efficiency(interval, 0.0, MTTF, RSC_RESTART)
    simulated = lab.ettr(_rsc(lab, interval, RSC_GPUS), replications)
    return estimate((1 - formula / ettr for ettr in simulated), expected)


def _rsc(lab: ScenarioRunner, interval: float, gpus: int) -> Prepared:
    """Return a job on RSC-1 that saves at no cost, of 80 days and, on 16,000 GPUs, about a thousand failures."""
    name = f"rsc {interval / MINUTE:g} min"
    tier = {"interval": seconds(interval), "mode": "blocking", "write": "0 s", "restore": "0 s"}
    node = {"use": "component", "name": name, "part": "node", "rate": f"{NODE_FAILURES} per 1000 node-days"}
    return lab.scenario(
        bare(
            name,
            cluster={"nodes": gpus // 8, "gpus_per_node": 8, "fabric": {"radix": 32768}},
            horizon="80 d",
            jobs=[{"name": "job", "gpus": gpus}],
            failures=[node],
            checkpoint={"tiers": [tier]},
            recovery={"use": "hot-spare", "initialize": seconds(RSC_RESTART)},
        )
    )


# Llama 3, 54 days on 16,384 GPUs: counts by cause, what follows from them, and which restarts reach 90 %.


NODES = 2048
WINDOW = 54 * DAY
INTERRUPTIONS = 466
PLANNED = "planned"
NOT_HARDWARE = ("software_bug", "dependency", "network_switch_cable")

RARE = 3
"""Causes of at most so many events are one class in the test of the mix."""


def llama3_rate(lab: ScenarioRunner, _: int, *, figure: str) -> MeasuredQuantity:
    """Return what follows from the rates of the catalog, before anything is drawn.

    `figure` is ``per 1000 node-days``, ``mtbi unexpected`` or ``mtbi all`` [h], ``hardware share`` [-], or the ``loss
    budget`` of an interruption that leaves 90 % of the time productive [min].
    """
    rates = {source.name: source.rate for source in _counting(lab).sources}
    total = sum(rates.values())
    unexpected = total - rates[PLANNED]
    figures = {
        "per 1000 node-days": unexpected * DAY / NODES * 1000,
        "mtbi unexpected": 1 / unexpected / HOUR,
        "mtbi all": 1 / total / HOUR,
        "hardware share": 1 - sum(rates[name] for name in NOT_HARDWARE) / unexpected,
        "loss budget": 0.1 / total / MINUTE,
    }
    return MeasuredQuantity(figures[figure])


def llama3_count(lab: ScenarioRunner, replications: int, *, causes: Sequence[str] = ()) -> MeasuredQuantity:
    """Return the interruptions of 54 days by some causes, ``unexpected`` ones, or all [-]."""
    names, counts = _counts(lab, replications)
    if list(causes) == ["unexpected"]:
        chosen = [name != PLANNED for name in names]
    else:
        chosen = [not causes or name in causes for name in names]
    return estimate(counts[:, chosen].sum(axis=1))


def llama3_within(lab: ScenarioRunner, replications: int, *, low: int, high: int) -> MeasuredQuantity:
    """Return the share of replications whose number of unexpected interruptions is from `low` to `high` [-]."""
    totals = _unexpected(lab, replications)[1].sum(axis=1)
    return MeasuredQuantity(float(((totals >= low) & (totals <= high)).mean()), 0.0, replications)


def llama3_dispersion(lab: ScenarioRunner, replications: int) -> MeasuredQuantity:
    """Return variance over mean of the number of unexpected interruptions [-]."""
    totals = _unexpected(lab, replications)[1].sum(axis=1)
    return MeasuredQuantity(float(totals.var(ddof=1) / totals.mean()), 0.0, replications)


def llama3_mix(lab: ScenarioRunner, replications: int) -> MeasuredQuantity:
    """Return Pearson's statistic of the mix of causes, of which the mean is the degrees of freedom [-]."""
    statistics, freedom = _pearson(lab, replications)
    return estimate(statistics, freedom)


def llama3_mix_uniform(lab: ScenarioRunner, replications: int) -> MeasuredQuantity:
    """Return the p-value of the p-values of the mix being uniform over replications (Kolmogorov, Smirnov) [-]."""
    from scipy.stats import chi2, kstest

    statistics, freedom = _pearson(lab, replications)
    return MeasuredQuantity(float(kstest(chi2.sf(statistics, freedom), "uniform").pvalue), 0.0, replications)


def _counting(lab: ScenarioRunner) -> Prepared:
    """Return a job on all nodes, with the interruptions of the paper and next to no time lost to each."""
    planned = {"use": "job", "name": PLANNED, "rate": "47 per 54 job-days", "planned": True}
    return lab.scenario(
        bare(
            "llama3 counts",
            cluster={"nodes": NODES, "gpus_per_node": 8, "fabric": {"radix": 1024}},
            horizon=seconds(WINDOW),
            jobs=[{"name": "pretrain", "gpus": NODES * 8}],
            failures=[{"use": "llama3-table5"}, planned],
        )
    )


def _counts(lab: ScenarioRunner, replications: int) -> tuple[list[str], NDArray[np.float64]]:
    """Return the names of the causes, and interruptions by replication and cause."""
    prepared = _counting(lab)
    counts = np.zeros((replications, len(prepared.sources)))
    for row, result in zip(counts, lab.results(prepared, replications), strict=True):
        for cause, count in result.jobs[0].interruptions.items():
            row[cause - 1] = count
    return [source.name for source in prepared.sources], counts


def _unexpected(lab: ScenarioRunner, replications: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the expected counts of the unexpected causes, and the simulated ones by replication."""
    names, counts = _counts(lab, replications)
    chosen = np.array([name != PLANNED for name in names])
    expected = np.array([source.rate for source in _counting(lab).sources]) * WINDOW
    return expected[chosen], counts[:, chosen]


def _pearson(lab: ScenarioRunner, replications: int) -> tuple[NDArray[np.float64], int]:
    """Return Pearson's statistic of each replication's mix of causes, the rarest as one, and its degrees of freedom."""
    expected, counts = _unexpected(lab, replications)
    rare = np.rint(expected) <= RARE
    counts = np.column_stack((counts[:, ~rare], counts[:, rare].sum(axis=1)))
    shares = np.append(expected[~rare], expected[rare].sum()) / expected.sum()
    means = counts.sum(axis=1, keepdims=True) * shares
    return ((counts - means) ** 2 / means).sum(axis=1), shares.size - 1


def llama3_grid(lab: ScenarioRunner, replications: int, *, write_s: float, restart_min: float) -> MeasuredQuantity:
    """Return the ETTR at Young's interval if a save blocks for `write_s` and a restart takes `restart_min` [-]."""
    mtti, restart = WINDOW / INTERRUPTIONS, restart_min * MINUTE
    interval = young_interval(write_s, mtti)
    expected = efficiency(interval, write_s, mtti, restart)
    if not replications:
        return MeasuredQuantity(expected)
    data = one_job(
        f"llama3 {write_s:g} s {restart_min:g} min",
        mtti,
        interval,
        write_s,
        horizon=1000 * mtti,
        recovery={"initialize": seconds(restart)},
    )
    return estimate(lab.ettr(lab.scenario(data), replications), expected)


def llama3_interval(_: ScenarioRunner, __: int, *, write_s: float) -> MeasuredQuantity:
    """Return Young's interval of a blocking save [min]."""
    return MeasuredQuantity(young_interval(write_s, WINDOW / INTERRUPTIONS) / MINUTE)


def llama3_feasible(
    lab: ScenarioRunner, replications: int, *, writes_s: Sequence[float], restarts_min: Sequence[float]
) -> MeasuredQuantity:
    """Return how many pairs of save and restart reach an ETTR of 90 % [-]."""
    pairs = [(write, restart) for write in writes_s for restart in restarts_min]
    cells = [llama3_grid(lab, replications, write_s=write, restart_min=restart).value for write, restart in pairs]
    return MeasuredQuantity(float(sum(cell >= 0.9 for cell in cells)))


def llama3_useful(lab: ScenarioRunner, replications: int, *, changes: Sequence[str] = ()) -> MeasuredQuantity:
    """Return the effective training time of the scenario that comes with the program, with changes [-]."""
    return estimate(lab.ettr(lab.shipped("llama3-405b-54d", changes), replications))


# What AIReSim prints of its default run, from the scenario that comes with the program.


COMPUTING = 256 * DAY
SELECTION, PREEMPTION = 3 * MINUTE, 20 * MINUTE
AUTOMATIC, MANUAL = 120 * MINUTE, 2880 * MINUTE

RANDOM_FAILURES = 4096 * 0.01 * 256
"""Nodes that compute, failures a day of each, days of computing: what theory expects."""


def airesim(lab: ScenarioRunner, replications: int, *, output: str) -> MeasuredQuantity:
    """Return an output of the default run, by its name in the tables below."""
    results = lab.results(lab.shipped("airesim-defaults"), replications)
    expected = RANDOM_FAILURES if output == "random failures" else None
    return estimate((_OUTPUTS[output](result) for result in results), expected)


def _seconds(result: Result, bucket: Bucket) -> float:
    """Return the time of the whole job in a bucket [s]."""
    job = result.jobs[0]
    return float(job.buckets[bucket]) / job.gpus


def _failures(result: Result) -> int:
    """Return how many failures hit the job."""
    return sum(result.jobs[0].interruptions.values())


def _systematic(result: Result) -> int:
    """Return how many of them were of bad nodes for their own reason."""
    return result.jobs[0].interruptions.get(2, 0)


def _preemptions(result: Result) -> float:
    """Return how many spares were waited for; not a whole number if the job ever waited for a repair."""
    return _seconds(result, Bucket.STARVED) / PREEMPTION


def _begun(result: Result) -> int:
    """Return how many repairs began; each begins with the automatic one."""
    return sum(result.repairs.values())


def _escalated(result: Result) -> float:
    """Return how many repairs needed the manual one, from the time that nodes were down.

    Those under way at the end are nearly all in the manual tier, whose time is exponential: what is left of it is, on
    average, a whole one.
    """
    under_way = _begun(result) - result.counts["repairs"]
    return (result.down_node_seconds + under_way * MANUAL - _begun(result) * AUTOMATIC) / MANUAL


_OUTPUTS: dict[str, Callable[[Result], float]] = {
    "training time": lambda result: (result.jobs[0].end - result.jobs[0].arrival) / HOUR,
    "effective training ratio": lambda result: result.jobs[0].buckets[Bucket.PRODUCTIVE] / result.jobs[0].requested,
    "failures": _failures,
    "random failures": lambda result: _failures(result) - _systematic(result),
    "systematic failures": _systematic,
    "run between failures": lambda result: COMPUTING / _failures(result) / MINUTE,
    "computing": lambda result: _seconds(result, Bucket.PRODUCTIVE) / HOUR,
    "recovery": lambda result: _seconds(result, Bucket.INITIALIZE) / HOUR,
    "host selection": lambda result: _seconds(result, Bucket.RESCHEDULE) / HOUR,
    "host selections": lambda result: _seconds(result, Bucket.RESCHEDULE) / SELECTION,
    "spare wait": lambda result: _seconds(result, Bucket.STARVED) / HOUR,
    "spare preemptions": _preemptions,
    "automatic repairs": _begun,
    "escalated repairs": _escalated,
    "successful repairs": lambda result: result.counts["repairs"] - result.counts["false_repairs"],
    "failed repairs": lambda result: result.counts["false_repairs"],
    "share of failed repairs": lambda result: result.counts["false_repairs"] / result.counts["repairs"],
    "stalls": lambda result: abs(_preemptions(result) - round(_preemptions(result))),  # off a whole number of waits
    "retirements": lambda result: result.counts["retired"],
}


# Plain statements of which this program has the inputs.


def young_minutes(_: ScenarioRunner, __: int, write: float, mtti: float) -> MeasuredQuantity:
    """Return the interval with the least lost time, to first order [min], of times in minutes."""
    return MeasuredQuantity(young_interval(write, mtti))


def near_best(_: ScenarioRunner, __: int, period: float, write: float, mtti: float, restart: float) -> MeasuredQuantity:
    """Return the gain of a period between saves, the save included, over what is with the best one [-]."""
    best = optimal_interval(write, mtti)
    return MeasuredQuantity(efficiency(period - write, write, mtti, restart) / efficiency(best, write, mtti, restart))


def saves_alone(lab: ScenarioRunner, _: int, steps: int, step: float, write: float) -> MeasuredQuantity:
    """Return the share of time that blocking saves take after every so many steps [-], without failures."""
    tier = {"interval": f"{steps * step!r} s", "mode": "blocking", "write": f"{write!r} s", "restore": "0 s"}
    cycles = 20
    prepared = lab.scenario(
        bare(
            "saves",
            horizon=seconds(cycles * (steps * step + write)),
            jobs=[{"name": "job", "gpus": 1, "step_time": seconds(step)}],
            failures=[],
            checkpoint={"tiers": [tier]},
        )
    )
    (job,) = sim.run(prepared, 0).jobs
    return MeasuredQuantity(float(job.buckets[Bucket.CHECKPOINT_STALL]) / job.requested)


def effective_time(
    lab: ScenarioRunner, replications: int, days: float, restarts: float, minutes: tuple[float, float]
) -> MeasuredQuantity:
    """Return the share of useful time [-] of a job that restarts so often in so many days.

    Parameters
    ----------
    minutes
        What detection and diagnosis take, and what catching up takes at most: a restart of 5 min, and the rest as the
        interval between saves [min].
    """
    detection, catch_up = minutes
    law = {"use": "exponential", "mean": f"{days / restarts!r} d"}
    tier = {"interval": f"{catch_up - 5!r} min", "mode": "blocking", "write": "0 s", "restore": "0 s"}
    prepared = lab.scenario(
        bare(
            "restarts",
            cluster={"nodes": 1280, "gpus_per_node": 8, "fabric": {"rails": 1, "radix": 4096}},
            horizon=f"{days!r} d",
            jobs=[{"name": "job", "gpus": 10240}],
            failures=[{"use": "job", "name": "any", "law": law}],
            detection={"time": f"{detection!r} min"},
            checkpoint={"tiers": [tier]},
            recovery={"use": "hot-spare", "initialize": "5 min"},
        )
    )
    return estimate(lab.ettr(prepared, replications))

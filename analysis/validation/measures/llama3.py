"""Llama 3, 54 days on 16,384 GPUs: counts by cause, what follows from them, and which restarts reach 90 %."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.validation.lab import estimate
from analysis.validation.measures.daly import one_job, seconds
from analysis.validation.row import Estimate
from sim import Bucket
from sim.formulas import efficiency, young_interval
from sim.units import DAY, HOUR, MINUTE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from analysis.validation.lab import Lab
    from sim import Prepared


NODES, GPUS_PER_NODE = 2048, 8

WINDOW = 54 * DAY

INTERRUPTIONS = 466

PLANNED = "planned"

NOT_HARDWARE = ("software_bug", "dependency", "network_switch_cable")

RARE = 3

"""Causes of at most so many events are one class in the test of the mix."""


def llama3_rate(lab: Lab, replications: int, *, figure: str) -> Estimate:
    """Return what follows from the rates of the catalog, before anything is drawn.

    `figure` is ``per 1000 node-days``, ``mtbi unexpected`` or ``mtbi all`` [h], ``hardware share`` [-], or the ``loss
    budget`` of an interruption that leaves 90 % of the time productive [min].
    """
    del replications
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
    return Estimate(figures[figure])


def llama3_count(lab: Lab, replications: int, *, causes: Sequence[str] = ()) -> Estimate:
    """Return the interruptions of 54 days by some causes, ``unexpected`` ones, or all [-]."""
    names, counts = _counts(lab, replications)
    if list(causes) == ["unexpected"]:
        chosen = [name != PLANNED for name in names]
    else:
        chosen = [not causes or name in causes for name in names]
    return estimate(counts[:, chosen].sum(axis=1))


def llama3_within(lab: Lab, replications: int, *, low: int, high: int) -> Estimate:
    """Return the share of replications whose number of unexpected interruptions is from `low` to `high` [-]."""
    totals = _unexpected(lab, replications)[1].sum(axis=1)
    return Estimate(float(((totals >= low) & (totals <= high)).mean()), 0.0, replications)


def llama3_dispersion(lab: Lab, replications: int) -> Estimate:
    """Return variance over mean of the number of unexpected interruptions [-]."""
    totals = _unexpected(lab, replications)[1].sum(axis=1)
    return Estimate(float(totals.var(ddof=1) / totals.mean()), 0.0, replications)


def llama3_mix(lab: Lab, replications: int) -> Estimate:
    """Return Pearson's statistic of the mix of causes, of which the mean is the degrees of freedom [-]."""
    statistics, freedom = _pearson(lab, replications)
    return estimate(statistics, freedom)


def llama3_mix_uniform(lab: Lab, replications: int) -> Estimate:
    """Return the p-value of the p-values of the mix being uniform over replications (Kolmogorov, Smirnov) [-]."""
    from scipy.stats import chi2, kstest

    statistics, freedom = _pearson(lab, replications)
    return Estimate(float(kstest(chi2.sf(statistics, freedom), "uniform").pvalue), 0.0, replications)


def llama3_grid(lab: Lab, replications: int, *, write_s: float, restart_min: float) -> Estimate:
    """Return the ETTR at Young's interval if a save blocks for `write_s` and a restart takes `restart_min` [-]."""
    mtti, restart = WINDOW / INTERRUPTIONS, restart_min * MINUTE
    interval = young_interval(write_s, mtti)
    expected = efficiency(interval, write_s, mtti, restart)
    if not replications:
        return Estimate(expected)
    data = one_job(
        f"llama3 {write_s:g} s {restart_min:g} min",
        mtti,
        interval,
        write_s,
        horizon=1000 * mtti,
        recovery={"initialize": seconds(restart)},
    )
    jobs = [result.jobs[0] for result in lab.results(lab.scenario(data), replications)]
    return estimate((float(job.buckets[Bucket.PRODUCTIVE]) / job.requested for job in jobs), expected)


def llama3_interval(lab: Lab, replications: int, *, write_s: float) -> Estimate:
    """Return Young's interval of a blocking save [min]."""
    del lab, replications
    return Estimate(young_interval(write_s, WINDOW / INTERRUPTIONS) / MINUTE)


def llama3_feasible(
    lab: Lab, replications: int, *, writes_s: Sequence[float], restarts_min: Sequence[float]
) -> Estimate:
    """Return how many pairs of save and restart reach an ETTR of 90 % [-]."""
    pairs = [(write, restart) for write in writes_s for restart in restarts_min]
    cells = [llama3_grid(lab, replications, write_s=write, restart_min=restart).value for write, restart in pairs]
    return Estimate(float(sum(cell >= 0.9 for cell in cells)))


def llama3_useful(lab: Lab, replications: int, *, changes: Sequence[str] = ()) -> Estimate:
    """Return the effective training time of the scenario that comes with the program, with changes [-]."""
    results = lab.results(lab.shipped("llama3-405b-54d", changes), replications)
    return estimate(float(result.jobs[0].buckets[Bucket.PRODUCTIVE]) / result.jobs[0].requested for result in results)


def _counting(lab: Lab) -> Prepared:
    """Return a job on all nodes, with the interruptions of the paper and next to no time lost to each."""
    planned = {"use": "job", "name": PLANNED, "rate": "47 per 54 job-day", "planned": True}
    return lab.scenario(
        {
            "name": "llama3 counts",
            "cluster": {"nodes": NODES, "gpus_per_node": GPUS_PER_NODE, "fabric": {"radix": 1024}},
            "horizon": seconds(WINDOW),
            "jobs": [{"name": "pretrain", "gpus": NODES * GPUS_PER_NODE}],
            "failures": [{"use": "llama3-table5"}, planned],
            "detection": {"time": "0 s"},
            "checkpoint": {"tiers": [{"interval": "1 h", "mode": "blocking", "write": "0 s", "restore": "0 s"}]},
            "recovery": {"use": "hot-spare", "initialize": "0 s"},
            "repair": {"time": "0 s"},
            "scheduler": {"use": "fifo"},
        }
    )


def _counts(lab: Lab, replications: int) -> tuple[list[str], NDArray[np.float64]]:
    """Return the names of the causes, and interruptions by replication and cause."""
    prepared = _counting(lab)
    counts = np.zeros((replications, len(prepared.sources)))
    for row, result in zip(counts, lab.results(prepared, replications), strict=True):
        for cause, count in result.jobs[0].interruptions.items():
            row[cause - 1] = count
    return [source.name for source in prepared.sources], counts


def _unexpected(lab: Lab, replications: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the expected counts of the unexpected causes, and the simulated ones by replication."""
    names, counts = _counts(lab, replications)
    chosen = np.array([name != PLANNED for name in names])
    expected = np.array([source.rate for source in _counting(lab).sources]) * WINDOW
    return expected[chosen], counts[:, chosen]


def _pearson(lab: Lab, replications: int) -> tuple[NDArray[np.float64], int]:
    """Return Pearson's statistic of each replication's mix of causes, the rarest as one, and its degrees of freedom."""
    expected, counts = _unexpected(lab, replications)
    rare = np.rint(expected) <= RARE
    counts = np.column_stack((counts[:, ~rare], counts[:, rare].sum(axis=1)))
    shares = np.append(expected[~rare], expected[rare].sum()) / expected.sum()
    means = counts.sum(axis=1, keepdims=True) * shares
    return ((counts - means) ** 2 / means).sum(axis=1), shares.size - 1


MEASURES = {
    "llama3_rate": llama3_rate,
    "llama3_count": llama3_count,
    "llama3_within": llama3_within,
    "llama3_dispersion": llama3_dispersion,
    "llama3_mix": llama3_mix,
    "llama3_mix_uniform": llama3_mix_uniform,
    "llama3_grid": llama3_grid,
    "llama3_interval": llama3_interval,
    "llama3_feasible": llama3_feasible,
    "llama3_useful": llama3_useful,
}

"""Published steps and throughput of inference, beside the closed form and the replay with the numbers that ship."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from analysis.calibrate import serving
from analysis.calibrate.fit import mape
from analysis.calibrate.rows import default_folder
from analysis.validation.lab import Estimate, estimate
from sim import Request, replay
from sim.steps.serving import Requests, largest_batch, largest_rate

if TYPE_CHECKING:
    from pathlib import Path

    from analysis.calibrate.serving import Measured
    from analysis.validation.lab import Lab

_REPLAYED = 6000
"""Requests of a replay, a tenth of them before it counts [-]."""

_LIMITS = {"Server": (2.0, 0.2), "Interactive": (0.45, 0.04)}
"""Limits of TTFT and TPOT that 99 % of the requests for Llama-2-70B meet, MLPerf Inference rules [s]."""


def _folder() -> Path:
    """Return the folder of the tables.

    Raises
    ------
    FileNotFoundError
        If they are not there.
    """
    folder = default_folder().parent / "serving"
    if not folder.exists():
        raise FileNotFoundError(folder)
    return folder


@functools.cache
def _systems() -> list[Measured]:
    return [each for each in serving.mlperf(_folder()) if each.model == "llama2-70b"]


def serving_error(_: Lab, __: int, of: str) -> Estimate:
    """Return the mean absolute error on published times, throughput or power of inference; nodes: the largest [-]."""
    data = _folder()
    if of in ("dense", "experts"):
        groups, _unused = serving.read(data / "served_agg.csv")
        return Estimate(mape(serving.errors(serving.kinds(groups)[of == "experts"], {})))
    if of == "phases":
        return Estimate(float(np.abs(serving.phases(data)[1]).mean(axis=0).max()))
    if of in ("offline", "dlrm"):
        parts = serving.offline(data, {}) if of == "offline" else serving.recommended(data)
        return Estimate(mape(np.concatenate(list(parts.values()))))
    if of == "disaggregated":
        return Estimate(mape(serving.disaggregated(data)[0]))
    if of == "node":
        return Estimate(float(np.abs(serving.node_powers(data)).max()))
    return Estimate(
        mape(serving.first_tokens(serving.mlperf(data)) if of == "ttft" else serving.mlperf_errors(_systems()))
    )


def serving_kept(lab: Lab, replications: int, scenario: Literal["Server", "Interactive"]) -> Estimate:
    """Return what a limit of latency leaves of offline throughput, less what MLPerf measured, mean of systems [-].

    Ours is the largest load of Poisson arrivals at which 99 % of the requests of a replay meet both limits.
    """
    systems = [each for each in _systems() if scenario in each.tokens_per_s]
    measured = np.array([each.tokens_per_s[scenario] / each.tokens_per_s["Offline"] for each in systems])
    # Systems of the same kind differ by a few tokens of an answer: one of each is replayed.
    kinds = {(each.accelerator, each.release): each for each in systems}
    kept = [
        [_load_within(each, *_LIMITS[scenario], lab.seed + seed) for each in kinds.values()]
        for seed in range(replications)
    ]
    weights = [sum((each.accelerator, each.release) == kind for each in systems) for kind in kinds]
    return estimate(np.average(kept, axis=1, weights=weights) - measured.mean())


def _load_within(system: Measured, ttft: float, tpot: float, seed: int) -> float:
    """Return the largest load at which 99 % of the requests are within the limits, by bisection [-]."""
    mean, rate = system.requests, largest_rate(system.replica, system.requests)
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(1.0, _REPLAYED)
    sigma = np.sqrt(np.log1p(serving.SPREAD**2))
    sizes = [
        np.clip(np.rint(tokens * np.exp(sigma * rng.standard_normal(_REPLAYED) - sigma**2 / 2)), 1, 1024).astype(int)
        for tokens in (float(mean.input), float(mean.output))
    ]
    low, high = 0.0, 1.0
    for _ in range(6):
        load = (low + high) / 2
        times = np.cumsum(gaps) / (load * rate)
        served = replay(system.replica, map(Request, times.tolist(), sizes[0].tolist(), sizes[1].tolist()))
        counted = slice(_REPLAYED // 10, None)
        met = np.mean((served.ttft[counted] <= ttft) & (served.tpot[counted] <= tpot))
        low, high = (load, high) if met >= 0.99 else (low, load)
    return low


def serving_in_flight(_: Lab, __: int) -> Estimate:
    """Return the largest ratio of sequences in flight, by Little's law from a log, to those with room [-].

    The room is that of the ranks with most of it, for the tokens that there are: the table does not say how replicas
    were laid out, nor how they admit.
    """
    ratios = []
    for each in _systems():
        gpus = each.replicas * each.replica.gpus
        engine = replace(each.replica.engine, admission="on-demand")
        sizes = [replace(each.replica, engine=engine, tensor=ranks) for ranks in (1, 2, 4, 8) if ranks <= gpus]
        room = max(largest_batch(size, Requests(*each.requests[:2])) * gpus / size.gpus for size in sizes)
        ratios += [each.tokens_per_s[name] * seconds / room for name, seconds in each.tpot_s.items()]
    return Estimate(max(ratios))

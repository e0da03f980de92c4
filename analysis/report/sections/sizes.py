"""The scenario of a report at other sizes: what a formula says there, and what was simulated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import sim
from analysis.report.choice import chosen_cells
from analysis.report.scaled import at_size, interruption_rates, shares_of, with_nodes_at_hand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.plots.charts import Range
    from analysis.report.material import Material
    from analysis.report.scaled import Rates
    from sim import Prepared

__all__ = ["AtSize", "Simulated", "at_sizes", "simulated_mtti", "simulated_shares", "waiting"]

_DOWN, _UP = 4, 3
"""How many times the job is halved and doubled: what is far from it rests on nothing."""
_LEAST, _MOST = 1024, 131_072
"""Sizes between which it is halved and doubled [GPUs]; once in any case."""
_GPUS = "jobs.0.gpus"


class AtSize(NamedTuple):
    """What a formula says of a size; ``None`` where it says nothing.

    Parameters
    ----------
    gpus
        GPUs of the first job [-].
    mtti, mtti_faster
        Running time between interruptions [s], with hardware failures in proportion to the GPUs, and growing faster.
    ettr, ettr_faster
        Share of productive time [-], likewise; of a job that restarts as a whole, with spares enough to wait for nodes
        as rarely as at its own size.
    exponent
        The power of the number of GPUs with which failures grow that grow faster [-]; 0 where none do.
    """

    gpus: int
    mtti: float
    mtti_faster: float | None
    ettr: float | None
    ettr_faster: float | None
    exponent: float


class Simulated(NamedTuple):
    """A size that was simulated: mean and 95 % interval."""

    gpus: int
    mean: float
    ci95: Range | None


def at_sizes(prepared: Prepared) -> list[AtSize]:
    """Return what formulas say of the size of the first job, doubled and halved; empty where they say nothing.

    A pool of spares in proportion to the job would be too small for a small job, and too large for a large one; so the
    part of its productive time that waits for nodes leave is held as it is.
    """
    rates = interruption_rates(prepared)
    if rates is None or not math.isfinite(prepared.jobs[0].mtti):
        return []
    down = min(max(math.floor(math.log2(rates.gpus / _LEAST)), 1), _DOWN)
    up = min(max(math.floor(math.log2(_MOST / rates.gpus)), 1), _UP)
    base = prepared if waiting(prepared) is None else with_nodes_at_hand(prepared)
    now, at_hand = (shares["productive"] if (shares := shares_of(one)) else 0.0 for one in (prepared, base))
    served = now / at_hand if at_hand > 0 else 1.0
    scaled = [at_size(base, rates.gpus * 2.0**power) for power in range(-down, up + 1)]
    found = [_at(one, prepared, rates, served) for one in scaled if one is not None]
    if sim.job_shares(prepared) is None:
        # Other sizes of a job that it says nothing of are none of its business.
        found = [size._replace(ettr=None, ettr_faster=None) for size in found]
    return list({size.gpus: size for size in found}.values())


def waiting(prepared: Prepared) -> float | None:
    """Return for which share of the time the job waits for nodes, detection left out [-], as a formula says.

    0 where the formula does not know; ``None`` where replicas wait one by one, which is no share of a job's time.
    """
    recovery: Any = prepared.recovery
    shares = shares_of(prepared)
    if recovery.elastic or shares is None:
        return None
    away = sum(shares.get(name, 0.0) for name in ("starved", "queued"))
    return min(away / (1 - shares["detection"]), 1.0)


def simulated_mtti(material: Material) -> list[Simulated]:
    """Return the running time between interruptions of the scenario that is looked at, as it was simulated [s].

    Nothing of several jobs, which are not interrupted equally often.
    """
    focus = material.focus
    if focus is None or len(focus.prepared.jobs) > 1:
        return []
    return _simulated(focus.prepared.jobs[0].gpus, focus.document["metrics"]["mtti_running"])


def simulated_shares(material: Material) -> list[Simulated]:
    """Return the ETTR of the scenario that is looked at, and of all sizes of it that a sweep has simulated [-]."""
    focus, sweep, study = material.focus, material.sweep, material.study
    if focus is None:
        return []
    chosen = None if sweep is None or study is None else chosen_cells(sweep)
    cells = [] if chosen is None or sweep is None else _same_but_for_size(sweep, chosen[0])
    if not cells or any("ettr" not in cell["metrics"] for cell in cells):
        return _simulated(focus.prepared.jobs[0].gpus, focus.document["metrics"]["ettr"])
    assert study is not None
    points = {point.number: point for point in study.points()}
    sizes = [study.scenario(points[cell["point"]]).jobs[0].gpus for cell in cells]
    if len(set(sizes)) < len(sizes):
        # What varies is not the size: it only comes with it.
        return _simulated(focus.prepared.jobs[0].gpus, focus.document["metrics"]["ettr"])
    pairs = zip(sizes, cells, strict=True)
    return sorted(one for gpus, cell in pairs for one in _simulated(gpus, cell["metrics"]["ettr"]))


def _at(scaled: Prepared, prepared: Prepared, rates: Rates, served: float) -> AtSize:
    """Return what formulas say of a scenario at a size, with the rates of the scenario as it is.

    Waits for nodes leave the part `served` of its productive time [-].
    """
    form, gpus = sim.closed_form(scaled), scaled.jobs[0].gpus
    mtti, more, shares = rates.mtti(gpus), 0.0, []
    for row in form.extrapolated:
        counted = interruption_rates(prepared, row.bundle)
        if row.superlinear is not None and counted is not None:
            shares.append(row.superlinear)
            more += counted.growing * gpus / rates.gpus * ((gpus / row.counted[1]) ** (row.exponent - 1) - 1)
    return AtSize(
        gpus,
        mtti,
        1 / (1 / mtti + more) if more > 0 else None,
        _share(form.ettr, served),
        _share(min(shares, default=None), served),
        max((row.exponent for row in form.extrapolated), default=0.0) if more > 0 else 0.0,
    )


def _share(ettr: float | None, served: float) -> float | None:
    """Return a share of time of a part of the time [-]; a rounding error is not below nothing."""
    return None if ettr is None else max(served * ettr, 0.0)


def _same_but_for_size(sweep: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Return the cells that differ from one in nothing but the axis that sets the GPUs of the job, if there is one."""
    axes = [name for name, axis in sweep["axes"].items() if _GPUS in axis["paths"]]
    if not axes:
        return []
    here = sweep["cells"][number]["values"]
    alike = [
        cell
        for cell in sweep["cells"]
        if cell["status"] == "ok" and all(cell["values"][axis] == here[axis] for axis in here if axis not in axes)
    ]
    return alike if len(alike) > 1 else []


def _simulated(gpus: int, metric: dict[str, Any] | None) -> list[Simulated]:
    """Return a simulated size; nothing where there is no mean."""
    if metric is None or metric["mean"] is None:
        return []
    return [Simulated(gpus, metric["mean"], _range(metric["mean_ci95"]))]


def _range(ends: Sequence[float | None] | None) -> Range | None:
    """Return an interval whose ends are both known."""
    if ends is None or ends[0] is None or ends[1] is None:
        return None
    return ends[0], ends[1]

"""Unlike clusters compared fairly: by what they make of a GPU, of a megawatt, or of money."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from ettrick import sim
from ettrick.analysis.amounts import amount_text
from ettrick.analysis.metrics import METRICS
from ettrick.analysis.ratios import provisioned
from ettrick.analysis.results.models import TakenSummary
from ettrick.analysis.statistics.precision import ReplicationsError
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ettrick.analysis.study.load import LoadedStudy
    from ettrick.analysis.study.table import Cell, StudyTable
    from ettrick.sim import Prepared, Ratio

Equal = Literal["gpus", "power", "cost"]
"""What unlike clusters are compared at."""

_MW = 1e6

_HEADLINES: Mapping[Equal, str] = MappingProxyType(
    {"gpus": "tokens_per_gpu_day", "power": "tokens_per_mw_day", "cost": "cost_per_token"}
)

_TITLES: Mapping[Equal, str] = MappingProxyType({"gpus": "GPUs", "power": "power", "cost": "cost"})

_AS_GIVEN = (
    "no cluster was made larger or smaller: how often failures strike, and what they cost, is that of the sizes given"
)


def headline_at_equal(kind: Equal, variants: Mapping[str, Prepared], differs: Sequence[str] = ()) -> str:
    """Return the metric that compares variants at equal GPUs, power or cost.

    ``tokens_per_gpu_day``, ``tokens_per_mw_day`` or ``cost_per_token``. Where the tokens are unknown of any variant,
    `cluster_goodput` compares at equal GPUs what does the same work on the same hardware.

    Parameters
    ----------
    differs
        What of model, precision, layout and accelerator is not the same in all variants; see `compare.what_differs`.

    Raises
    ------
    RequestError
        With a line that names a variant, and what of it is not known.
    """
    headline = METRICS[_HEADLINES[kind]]
    is_time_alone = kind == "gpus" and all(headline.lacks(prepared) for prepared in variants.values())
    if is_time_alone and not differs:
        return "cluster_goodput"
    for need in headline.needs:
        for name, prepared in variants.items():
            if not need.has(prepared):
                message = f"at equal {_TITLES[kind]}: {name}: {need.rule}"
                if is_time_alone:
                    message += f" (GPU-time alone compares nothing where {' and '.join(differs)} differ)"
                raise ReplicationsError(message)
    return headline.name


def taken(prepared: Prepared, rows: Sequence[Mapping[str, Ratio]]) -> TakenSummary:
    """Return what a variant has at hand, or takes, from its scenario and its replications."""
    gpus = prepared.nodes * _gpus_per_node(prepared)
    power = provisioned(prepared)
    cost = prepared.upkeep.cost
    costs = [row["cost"].amount for row in rows if "cost" in row]
    days = [row["tokens_per_gpu_day"].base / gpus for row in rows if "tokens_per_gpu_day" in row]
    is_known = cost is not None and costs and math.fsum(days) > 0
    return TakenSummary(
        gpus=gpus,
        in_jobs=sum(plan.gpus for plan in prepared.jobs),
        megawatts=None if power is None else power / _MW,
        cost_per_day=math.fsum(costs) / math.fsum(days) if is_known else None,
        currency=cost.currency if cost is not None else "",
    )


def _gpus_per_node(prepared: Prepared) -> int:
    cluster = prepared.scenario.cluster
    return int(cluster.hosts.gpus)


def at_equal_lines(kind: Equal, metric: str, of: Mapping[str, TakenSummary], differs: Sequence[str] = ()) -> list[str]:
    """Return what was divided by what for each variant, and what that leaves open, in words."""
    parts = [f"{name}: {_size_text(kind, found)}" for name, found in of.items()]
    lines = [f"at equal {_TITLES[kind]}: {_DIVIDED[metric]}. {'; '.join(parts)}"]
    sizes = {found.megawatts if kind == "power" else found.gpus for found in of.values()}
    if len(sizes) > 1:
        lines.append(_AS_GIVEN)
    if "model" in differs:
        lines.append("the models differ: a token of one is not worth a token of another")
    return lines


_DIVIDED: Mapping[str, str] = MappingProxyType(
    {
        "tokens_per_gpu_day": "tokens that survived, over the days of all GPUs owned, spares and idle ones included",
        "cluster_goodput": "productive GPU-time, over that of all GPUs owned, spares and idle ones included",
        "tokens_per_mw_day": "tokens that survived, over days of the power that the facility is built for: all nodes "
        "in training, switches and storage, times PUE",
        "cost_per_token": "what the cluster cost, over the tokens that survived",
    }
)


def _size_text(kind: Equal, found: TakenSummary) -> str:
    """Return what a variant has at hand, in words."""
    if kind == "gpus":
        return f"{found.gpus:,} GPUs, {found.in_jobs:,} of them in jobs"
    if kind == "power":
        return f"{found.megawatts:.4g} MW"
    if found.cost_per_day is None:
        return "an unknown cost"
    return f"{amount_text(found.cost_per_day)} {found.currency} a day"


_MOST_NAMED = 6
"""Cells of a study whose sizes are named one by one; of more, the smallest and the largest."""

_UNLIKE = ("cluster", "cluster.accelerator", "cluster.pools")
_UNLIKE_OF_JOBS = ("model", "precision", "parallelism", "mfu", "step_time", "calibration")


def study_headline(loaded: LoadedStudy) -> str:
    """Return the metric that leads a study at equal GPUs, power or cost, by the first of its points that can run.

    Raises
    ------
    RequestError
        With a line that says what is not known.
    """
    kind = loaded.study.at_equal
    assert kind is not None
    for point in loaded.points():
        try:
            prepared = sim.prepare(loaded.scenario(point))
        except (sim.ScenarioError, sim.PathError):
            continue
        return headline_at_equal(kind, {loaded.study.name: prepared}, _varied(loaded))
    return _HEADLINES[kind]


def _varied(loaded: LoadedStudy) -> list[str]:
    """Return the paths that vary and make GPU-time worth more or less."""
    paths = [path for name, axis in loaded.study.vary.items() for path in axis.targets(name)]
    return [
        path
        for path in dict.fromkeys(paths)
        if path in _UNLIKE or path.startswith("cluster.accelerator.") or _is_of_step(path)
    ]


def _is_of_step(path: str) -> bool:
    steps = path.split(".")
    return steps == ["jobs"] or (steps[0] == "jobs" and (len(steps) < 3 or steps[2] in _UNLIKE_OF_JOBS))


def table_lines(kind: Equal, table: StudyTable) -> list[str]:
    """Return what was divided by what for the cells of a study, whose headline is the first metric, in words."""
    metric = table.metrics[0]
    sizes = [
        (_mean_size(cell, metric), _label(table, cell)) for cell in table.running if cell.stated.metrics.get(metric)
    ]
    if not sizes:
        return [f"at equal {_TITLES[kind]}: no point has a {metric}"]
    form = _SIZES[metric]
    listed = sizes if len(sizes) <= _MOST_NAMED else [min(sizes), max(sizes)]
    unit = form.unit or table.currency
    parts = "; ".join(f"{label}: {amount_text(size)} {unit}" for size, label in listed)
    between = "" if listed is sizes else " (the smallest and the largest)"
    lines = [f"at equal {_TITLES[kind]}: {_DIVIDED[metric]}. In a mean replication{between}: {parts}"]
    return [*lines, _AS_GIVEN] if len({size for size, _ in sizes}) > 1 else lines


class _ResourceUnit(NamedTuple):
    """Which entry of a ratio is what was taken, what one of its unit is, and what that is called; empty for money."""

    entry: int
    one: float
    unit: str


_SIZES: Mapping[str, _ResourceUnit] = MappingProxyType(
    {
        "tokens_per_gpu_day": _ResourceUnit(1, 1.0, "GPU-days"),
        "cluster_goodput": _ResourceUnit(1, DAY, "GPU-days"),
        "tokens_per_mw_day": _ResourceUnit(1, 1.0, "MW-days"),
        "cost_per_token": _ResourceUnit(0, 1.0, ""),
    }
)


def _mean_size(cell: Cell, metric: str) -> float:
    """Return what a cell took in a mean replication."""
    ratios, form = cell.stated.metrics[metric], _SIZES[metric]
    return math.fsum(ratio[form.entry] for ratio in ratios) / len(ratios) / form.one


def _label(table: StudyTable, cell: Cell) -> str:
    """Return what a cell is, in words."""
    return ", ".join(f"{table.title(axis)} {value.label}" for axis, value in zip(table.axes, cell.values, strict=True))

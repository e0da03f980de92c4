"""How many nodes are missing at once, beside what independent nodes would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.answers.words import form_of
from analysis.missing import LEVELS, nodes_down
from analysis.plots.charts import Curves, Scale, Series
from analysis.report.model import Column, Grid, Picture, Section
from analysis.report.sections.account import percent
from sim import units
from sim.theory import exceedance, missing_nodes_pmf

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from analysis.report.focus import Focus
    from analysis.report.material import Material
    from sim import Prepared, Result

__all__ = ["Exceedance", "exceedance_of", "section"]

_MOST_POINTS = 400
_LEAST = 1e-5
"""Share of the time below which curves are not drawn [-]."""
_TINY = 1e-4
"""Share of the time below which it is not told exactly [-]."""
_WIDER = 1.2
"""Variance over that of independent nodes from which on it is worth a word [-]."""
_DAILY = "independent, mean of each day"
_DAY = units.DURATION.units["d"]
_MOST_WINDOWS = 60
_FEWEST_RUNS = 5
"""Replications from which on the mean of a day is that of the days, and not of a few failures."""


class Exceedance(NamedTuple):
    """For which share of the time more than so many nodes are missing at once.

    Parameters
    ----------
    simulated, independent
        ``P(X > k)`` for k = 0, 1, ..., N [-]: pooled over replications, and of N independent nodes with the same mean.
    daily
        The same of independent nodes whose mean is at any time that of the day [-]; ``None`` where too little tells it.
    """

    simulated: NDArray[np.float64]
    independent: NDArray[np.float64]
    daily: NDArray[np.float64] | None = None


def exceedance_of(results: Sequence[Result], nodes: int) -> Exceedance | None:
    """Return the exceedance curves of the number of nodes that are down; ``None`` if none ever was.

    Time is pooled over replications, so that the sum of either curve is the mean number down.

    Parameters
    ----------
    results
        Replications of one scenario.
    nodes
        Nodes of the cluster, N.

    References
    ----------
    The sum of P(X > k) over k is the mean of a count: W. Feller, An Introduction to Probability Theory and Its
    Applications, volume 1, 3rd edition (1968), chapter XI.1.
    """
    law = np.zeros(nodes + 1)
    for result in results:
        for count, seconds in result.down_times.items():
            law[count] += seconds
    if not law[1:].any():
        return None
    law /= law.sum()
    mean = float(np.arange(nodes + 1) @ law)
    daily = _daily_law(results, nodes)
    return Exceedance(
        exceedance(law),
        exceedance(missing_nodes_pmf(nodes, min(mean / nodes, 1.0))),
        None if daily is None else exceedance(daily),
    )


def _daily_law(results: Sequence[Result], nodes: int) -> NDArray[np.float64] | None:
    """Return the law of how many independent nodes are down whose mean is that of each day, over all replications.

    A mixture of binomial laws, as heavy as the days are long; long runs have longer windows. ``None`` with few
    replications, without a log of outages, or with one window.
    """
    lengths = np.array([sum(result.down_times.values()) for result in results])
    longest = float(lengths.max())
    count = min(int(np.ceil(longest / _DAY)), _MOST_WINDOWS)
    if len(results) < _FEWEST_RUNS or count < 2 or not any(result.outages for result in results):
        return None
    width = longest / count
    outages = np.array([outage[1:3] for result in results for outage in result.outages])
    edges = width * np.arange(count + 1)
    down = np.array([np.clip(edge - outages[:, 0], 0, outages[:, 1] - outages[:, 0]).sum() for edge in edges])
    seconds = np.diff([np.minimum(lengths, edge).sum() for edge in edges])
    law = np.zeros(nodes + 1)
    for missing, weight in zip(np.diff(down), seconds, strict=True):
        if weight > 0:
            law += weight * missing_nodes_pmf(nodes, float(np.clip(missing / weight / nodes, 0, 1)))
    found: NDArray[np.float64] = law / law.sum()
    return found


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    focus = material.focus
    if focus is None:
        return None
    nodes, results = focus.prepared.serving, focus.ensemble.results
    curves = exceedance_of(results, nodes)
    if curves is None:
        return None
    found = nodes_down(focus.ensemble.tally.down_times, nodes)
    enough = found["p99"]
    wanted = found["independent"]["p99"] if curves.daily is None else _quantile(curves.daily, LEVELS["p99"])
    title = f"For 99 % of the time no more than {_nodes(enough)} missing at once"
    if enough > wanted and _takes_several(focus.prepared):
        title += f"; of nodes that fail one by one, no more than {wanted:,}"
    chart = Curves(
        title,
        Scale("nodes missing at once"),
        Scale("share of the time with more than so many missing", is_log=True),
        _series(curves),
        edges=((float(focus.prepared.spares), f"{focus.prepared.spares:,} hot spares"),)
        if focus.prepared.spares
        else (),
    )
    alt = (
        f"Share of the time against the number of missing nodes, falling: more than {found['p50']:,} for half of the "
        f"time at most, more than {enough:,} for 1 % at most, {found['max']:,} in the worst moment. Dashed: "
        "independent nodes."
    )
    caption = "Nodes that are down anywhere in the cluster. Dashed: the binomial law with the same mean at all times"
    caption += "." if curves.daily is None else ", and binomial laws with the mean of each day."
    picture = Picture("missing-nodes", chart, alt, caption, _table(found, curves, focus))
    return Section("missing-nodes", title, _text(found, curves, focus), (picture,), _notes(focus))


def _nodes(count: int) -> str:
    return "one node is" if count == 1 else f"{count:,} nodes are"


def _series(curves: Exceedance) -> tuple[Series, ...]:
    """Return both curves as far as they are above what is drawn, thinned out where they are long."""
    known = [curve for curve in (curves.simulated, curves.daily, curves.independent) if curve is not None]
    last = max(int(np.flatnonzero(curve >= _LEAST)[-1]) if (curve >= _LEAST).any() else 0 for curve in known)
    places = np.arange(0, last + 2, max(1, -(-last // _MOST_POINTS)))
    places = places[places < len(curves.simulated)]
    daily = [] if curves.daily is None else [(_DAILY, "dashed", 1)]
    names = (("simulated", "step", 0), *daily, ("independent nodes", "dashed", -1))
    return tuple(
        Series(
            name,
            tuple(float(place) for place in places),
            tuple(float(value) if value >= _LEAST else None for value in curve[places]),
            look=look,
            hue=hue,
        )
        for curve, (name, look, hue) in zip(known, names, strict=True)
    )


def _text(found: Mapping[str, Any], curves: Exceedance, focus: Focus) -> tuple[str, ...]:
    """Return what the numbers mean for spares, and how far failures are from independent."""
    mean = form_of("nodes", [found["mean"]]).plain(found["mean"])
    text = f"On average {mean} of {focus.prepared.serving:,} nodes are missing."
    spares = focus.prepared.spares
    if spares:
        text += f" More nodes than the {spares:,} hot spares are missing for {_time(curves.simulated[spares])}"
        text += f"; of independent nodes for {_time(curves.independent[spares])}"
        text += "." if curves.daily is None else f", with the mean of each day for {_time(curves.daily[spares])}."
    dispersion = found["dispersion"]
    if dispersion is None:
        return (text,)
    beside = f"The variance of the number is {dispersion:.2g} times that of independent nodes with the same mean"
    left = dispersion
    if curves.daily is not None:
        left = _variance(curves.simulated) / _variance(curves.daily)
        beside += f" at all times, and {left:.2g} times that of independent nodes with the mean of each day"
    reasons = _reasons(focus, dispersion, left)
    return text, f"{beside}.{''.join(f' {reason}' for reason in reasons)}"


def _reasons(focus: Focus, dispersion: float, left: float) -> list[str]:
    """Return why the number varies more than that of independent nodes, so far as the scenario describes it.

    Parameters
    ----------
    focus
        The scenario.
    dispersion, left
        Variance over that of independent nodes with one mean, and with the mean of each day [-].
    """
    found = []
    several = _takes_several(focus.prepared)
    if dispersion > _WIDER and focus.scenario.initial == "new" and not focus.prepared.warmup:
        found.append("The run begins with all nodes healthy: the mean rises from none, and that makes it larger.")
    if max(left, dispersion) > _WIDER and _changes(focus.prepared):
        found.append("Failure rates that change with time may make it larger.")
    if left > _WIDER and several:
        found.append("Failures that take several nodes at once make it larger.")
    if max(left, dispersion) > _WIDER and not several:
        found.append("No cause here takes several nodes at once.")
    return found


def _takes_several(prepared: Prepared) -> bool:
    """Return whether a cause of the scenario can take several nodes at once."""
    sizes = {part: int(np.diff(offsets).max()) for part, (offsets, _) in prepared.blast.items() if len(offsets) > 1}
    return any(source.blast is not None or sizes.get(source.part, 1) > 1 for source in prepared.sources)


def _changes(prepared: Prepared) -> bool:
    """Return whether failures of the scenario are more frequent at some times than at others."""
    return any(
        source.tempo is not None or source.law is None or not source.law.memoryless for source in prepared.sources
    )


def _variance(curve: NDArray[np.float64]) -> float:
    """Return the variance of a count [-]: the sum of (2 k + 1) P(X > k), less the square of the mean."""
    return float((2 * np.arange(len(curve)) + 1) @ curve - curve.sum() ** 2)


def _quantile(curve: NDArray[np.float64], level: float) -> int:
    """Return the smallest number that is enough for a share of the time [-]."""
    return int(np.argmax(curve <= 1 - level))


def _time(share: float) -> str:
    """Return a share of the time, of which tiny ones are not told exactly."""
    if not share:
        return "none of the time"
    return "less than 0.01 % of the time" if share < _TINY else f"{percent(float(share))} of the time"


def _table(found: Mapping[str, Any], curves: Exceedance, focus: Focus) -> Grid:
    """Return how many nodes are enough for how much of the time, and how often the spares are not."""
    daily = curves.daily
    rows = []
    for name, level in LEVELS.items():
        between = [] if daily is None else [f"{_quantile(daily, level):,}"]
        label = f"{100 * level:g} % of the time: no more than"
        rows.append((label, f"{found[name]:,}", *between, f"{found['independent'][name]:,}"))
    spares = focus.prepared.spares
    if spares:
        known = [curve for curve in (curves.simulated, daily, curves.independent) if curve is not None]
        row = (_time(curve[spares]).removesuffix(" of the time") for curve in known)
        rows.append((f"more than {spares:,} for this share of the time", *row))
    heads = ("simulated", *([] if daily is None else [_DAILY]), "independent nodes")
    return Grid("Nodes missing at once", (Column("", is_number=False), *map(Column, heads)), rows)


def _notes(focus: Focus) -> tuple[str, ...]:
    count = len(focus.ensemble.results)
    of = "" if count == focus.wanted else f" the first {count} of"
    return (
        f"Of {focus.name}: the time of{of} {focus.wanted:,} {'replication' if focus.wanted == 1 else 'replications'}"
        " together, each from the end of its warm-up on.",
    )

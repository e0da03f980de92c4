"""How many nodes are missing at once, beside what independent nodes would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.answers.words import form_of
from analysis.missing import LEVELS, nodes_down
from analysis.plots.charts import Curves, Scale, Series
from analysis.report.model import Column, Grid, Picture, Section
from analysis.report.sections.account import percent
from sim.theory import exceedance, missing_nodes_pmf

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from analysis.report.focus import Focus
    from analysis.report.material import Material
    from sim import Result

__all__ = ["Exceedance", "exceedance_of", "section"]

_MOST_POINTS = 400
_LEAST = 1e-5
"""Share of the time below which curves are not drawn [-]."""
_TINY = 1e-4
"""Share of the time below which it is not told exactly [-]."""
_WIDER = 1.2
"""Variance over that of independent nodes from which on it is worth a word [-]."""


class Exceedance(NamedTuple):
    """For which share of the time more than so many nodes are missing at once.

    Parameters
    ----------
    simulated, independent
        ``P(X > k)`` for k = 0, 1, ..., N [-]: pooled over replications, and of N independent nodes with the same mean.
    """

    simulated: NDArray[np.float64]
    independent: NDArray[np.float64]


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
    return Exceedance(exceedance(law), exceedance(missing_nodes_pmf(nodes, min(mean / nodes, 1.0))))


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    focus = material.focus
    if focus is None:
        return None
    nodes, results = focus.prepared.nodes, focus.ensemble.results
    curves = exceedance_of(results, nodes)
    if curves is None:
        return None
    found = nodes_down(results, nodes)
    enough, wanted = found["p99"], found["independent"]["p99"]
    title = f"For 99 % of the time no more than {_nodes(enough)} missing at once"
    if enough != wanted:
        title += f"; of independent nodes, no more than {wanted:,}"
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
        "independent nodes with the same mean."
    )
    caption = "Nodes that are down anywhere in the cluster; the dashed curve is the binomial law with the same mean."
    picture = Picture("missing-nodes", chart, alt, caption, _table(found, curves, focus))
    return Section("missing-nodes", title, _text(found, curves, focus), (picture,), _notes(focus))


def _nodes(count: int) -> str:
    return "one node is" if count == 1 else f"{count:,} nodes are"


def _series(curves: Exceedance) -> tuple[Series, ...]:
    """Return both curves as far as they are above what is drawn, thinned out where they are long."""
    last = max(int(np.flatnonzero(curve >= _LEAST)[-1]) if (curve >= _LEAST).any() else 0 for curve in curves)
    places = np.arange(0, last + 2, max(1, -(-last // _MOST_POINTS)))
    places = places[places < len(curves.simulated)]
    names = (("simulated", "step", 0), ("independent nodes", "dashed", -1))
    return tuple(
        Series(
            name,
            tuple(float(place) for place in places),
            tuple(float(value) if value >= _LEAST else None for value in curve[places]),
            look=look,
            hue=hue,
        )
        for curve, (name, look, hue) in zip(curves, names, strict=True)
    )


def _text(found: Mapping[str, Any], curves: Exceedance, focus: Focus) -> tuple[str, ...]:
    """Return what the numbers mean for spares, and how far failures are from independent."""
    mean = form_of("nodes", [found["mean"]]).plain(found["mean"])
    text = f"On average {mean} of {focus.prepared.nodes:,} nodes are missing."
    spares = focus.prepared.spares
    if spares:
        text += f" More nodes than the {spares:,} hot spares are missing for {_time(curves.simulated[spares])}"
        text += f"; of independent nodes for {_time(curves.independent[spares])}."
    dispersion = found["dispersion"]
    if dispersion is None:
        return (text,)
    beside = f"The variance of the number is {dispersion:.2g} times that of independent nodes."
    if dispersion > _WIDER:
        beside += " Failures that take several nodes make it larger, and so do rates that change with time"
        beside += ", and a start with all nodes healthy." if focus.scenario.initial == "new" else "."
    return text, beside


def _time(share: float) -> str:
    """Return a share of the time, of which tiny ones are not told exactly."""
    if not share:
        return "none of the time"
    return "less than 0.01 % of the time" if share < _TINY else f"{percent(float(share))} of the time"


def _table(found: Mapping[str, Any], curves: Exceedance, focus: Focus) -> Grid:
    """Return how many nodes are enough for how much of the time, and how often the spares are not."""
    rows = [
        (
            f"{100 * level:g} % of the time: no more than",
            *(f"{those[name]:,}" for those in (found, found["independent"])),
        )
        for name, level in LEVELS.items()
    ]
    spares = focus.prepared.spares
    if spares:
        row = (_time(curve[spares]).removesuffix(" of the time") for curve in curves)
        rows.append((f"more than {spares:,} for this share of the time", *row))
    heads = ("simulated", "independent nodes")
    return Grid("Nodes missing at once", (Column("", is_number=False), *map(Column, heads)), rows)


def _notes(focus: Focus) -> tuple[str, ...]:
    count = len(focus.ensemble.results)
    of = "" if count == focus.wanted else f" the first {count} of"
    return (
        f"Of {focus.name}: the time of{of} {focus.wanted:,} {'replication' if focus.wanted == 1 else 'replications'}"
        " together, each from the end of its warm-up on.",
    )

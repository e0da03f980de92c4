"""The number of nodes that are missing at once, compared with that of independent nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.analysis.amounts import PERCENT, count_text, form_of, number_of, percent_text, text_or_dash
from ettrick.analysis.page.account import of_focus
from ettrick.analysis.page.charts.data import ChartAxis, Curves, Series
from ettrick.analysis.page.model import Figure, Section, grid
from ettrick.analysis.results.run import LEVELS, nodes_down
from ettrick.sim.formulas.arrays import exceedance
from ettrick.sim.formulas.nodes import missing_nodes_pmf
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ettrick.analysis.page.model import TableBlock
    from ettrick.analysis.page.report_data import ReplayedScenario
    from ettrick.analysis.results.models import NodesDown
    from ettrick.sim import Prepared, Result


_MOST_POINTS = 400
_LEAST = 1e-5  # share of the time below which curves are not drawn [-]
_TINY = 1e-4  # share of the time below which no exact number is given [-]
_WIDER = 1.2  # variance over that of independent nodes from which on it is worth a word [-]
_DAILY = "independent, mean of each day"
_MOST_DAYS = 60


class Exceedance(NamedTuple):
    """For which share of the time more than so many nodes are missing at once."""

    # simulated, independent: ``P(X > k)`` for k = 0, 1, ..., N [-]: pooled over replications, and of N independent
    # nodes with the same mean
    simulated: NDArray[np.float64]
    independent: NDArray[np.float64]
    # The same of independent nodes whose mean is at any time that of the day [-]; ``None`` where too little is known.
    daily: NDArray[np.float64] | None = None

    @property
    def named(self) -> dict[str, NDArray[np.float64]]:
        """The curves that are known, by name."""
        daily = {} if self.daily is None else {_DAILY: self.daily}
        return {"simulated": self.simulated, **daily, "independent nodes": self.independent}


def exceedance_of(results: Sequence[Result], nodes: int) -> Exceedance | None:
    """Return the exceedance curves of the number of nodes that are down; ``None`` if none ever was.

    Time is pooled over replications, so that the sum of either curve is the mean number down.

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
    mean, daily = float(np.arange(nodes + 1) @ law), _daily_law(results, nodes)
    independent = missing_nodes_pmf(nodes, min(mean / nodes, 1.0))
    return Exceedance(exceedance(law), exceedance(independent), None if daily is None else exceedance(daily))


def _daily_law(results: Sequence[Result], nodes: int) -> NDArray[np.float64] | None:
    """Return the law of how many independent nodes are down whose mean is that of each day, over all replications.

    A mixture of binomial laws, as heavy as the days are long; long runs have longer windows. ``None`` with few
    replications, whose mean of a day is that of a few failures; without a log of outages; or with one window.
    """
    lengths = np.array([sum(result.down_times.values()) for result in results])
    longest = float(lengths.max())
    count = min(int(np.ceil(longest / DAY)), _MOST_DAYS)
    if len(results) < 5 or count < 2 or not any(result.outages for result in results):
        return None
    width = longest / count
    start, end = (np.concatenate([getattr(result.outages, name) for result in results]) for name in ("start", "end"))
    edges = width * np.arange(count + 1)
    down = np.array([np.clip(edge - start, 0, end - start).sum() for edge in edges])
    seconds = np.diff([np.minimum(lengths, edge).sum() for edge in edges])
    law = np.zeros(nodes + 1)
    for missing, weight in zip(np.diff(down), seconds, strict=True):
        if weight > 0:
            law += weight * missing_nodes_pmf(nodes, float(np.clip(missing / weight / nodes, 0, 1)))
    mixture: NDArray[np.float64] = law / law.sum()
    return mixture


@of_focus
def missing_nodes_section(focus: ReplayedScenario) -> Section | None:
    """Return the section; ``None`` where no node was ever down."""
    prepared, results = focus.prepared, focus.ensemble.results
    curves = exceedance_of(results, prepared.serving)
    down = nodes_down(focus.ensemble.down_times, prepared.serving)
    if curves is None or down is None:
        return None
    title = nodes_down_title(down, prepared, curves)
    spares = prepared.spares
    chart = Curves(
        title,
        ChartAxis("nodes missing at once"),
        ChartAxis("share of the time with more than so many missing [%]", is_log=True),
        _exceedance_series(curves),
        edges=((float(spares), f"{spares:,} hot spares"),) if spares else (),
    )
    alt = (
        f"Share of the time against the number of missing nodes, falling: more than {down.p50:,} for half of the time "
        f"at most, more than {down.p99:,} for 1 % at most, {down.max:,} in the worst moment. Dashed: independent nodes."
    )
    caption = "Nodes that are down anywhere in the cluster. Dashed: the binomial law with the same mean at all times"
    caption += "." if curves.daily is None else ", and binomial laws with the mean of each day."
    picture = Figure("missing-nodes", chart, alt, caption, down_at_once(down, curves, spares))
    of = "" if len(results) == focus.wanted else f" the first {len(results)} of"
    note = f"For {focus.name}: the time of{of} {number_of(focus.wanted, 'replication')} together, after the warm-up."
    return Section("missing-nodes", title, tuple(_on_nodes_down(down, curves, focus)), (picture,), (note,))


def nodes_down_title(down: NodesDown, prepared: Prepared, curves: Exceedance | None = None) -> str:
    """Return how many nodes are enough for 99 % of the time, and how many independent failures would need."""
    daily = None if curves is None else curves.daily
    independent = down.independent.p99 if daily is None else _quantile(daily, LEVELS["p99"])
    nodes = "one node is" if down.p99 == 1 else f"{down.p99:,} nodes are"
    title = f"For 99 % of the time no more than {nodes} missing at once"
    is_wider = down.p99 > independent and _takes_several(prepared)
    return f"{title}; of nodes that fail one by one, no more than {independent:,}" if is_wider else title


def down_at_once(down: NodesDown, curves: Exceedance | None = None, spares: int = 0, what: str = "nodes") -> TableBlock:
    """Return how many nodes, or domains, are enough for how much of the time, simulated and of independent ones."""
    daily = None if curves is None else curves.daily

    def numbers(of: object) -> list[str]:
        return [text_or_dash(getattr(of, name), "{:,}".format) for name in LEVELS]

    rows = [["simulation", *numbers(down), f"{down.max:,}"]]
    rows += [] if daily is None else [[_DAILY, *(f"{_quantile(daily, level):,}" for level in LEVELS.values()), ""]]
    rows.append([f"independent {what}", *numbers(down.independent), ""])
    for row in rows:
        row.insert(1, count_text(down.mean))
    heads = ["", "mean", *(f"P{100 * level:g}" for level in LEVELS.values()), "most"]
    if curves is not None and spares:
        heads.append(f"time with more than {spares:,} missing")
        for row, curve in zip(rows, curves.named.values(), strict=True):
            row.append(_time(curve[spares]).removesuffix(" of the time"))
    return grid(f"{what.capitalize()} down at once", heads, rows)


_LAST = 4  # numbers of nodes of which the terminal says how often more are down


def more_than(down: NodesDown, what: str) -> Iterator[str]:
    """Yield for which part of the time more of the nodes or domains are down, the last numbers."""
    for row in down.more_than[-_LAST:]:
        yield f"more than {row.count:,} {what} ({row.gpus:,} GPUs) for {percent_text(row.time_share)} of the time"


def _exceedance_series(curves: Exceedance) -> tuple[Series, ...]:
    """Return the curves as far as they are above what is drawn, thinned out where they are long."""
    named = curves.named
    last = max(int(np.flatnonzero(curve >= _LEAST)[-1]) if (curve >= _LEAST).any() else 0 for curve in named.values())
    places = np.arange(0, last + 2, max(1, -(-last // _MOST_POINTS)))
    places = places[places < len(curves.simulated)]
    return tuple(
        Series(
            name,
            tuple(map(float, places)),
            tuple(100.0 * float(value) if value >= _LEAST else None for value in curve[places]),
            look="step" if name == "simulated" else "dashed",
            hue={"simulated": 0, _DAILY: 1}.get(name, -1),
        )
        for name, curve in named.items()
    )


def _on_nodes_down(down: NodesDown, curves: Exceedance, focus: ReplayedScenario) -> Iterator[str]:
    prepared, daily, spares = focus.prepared, curves.daily, focus.prepared.spares
    mean = form_of("nodes", [down.mean]).plain(down.mean)
    text = f"On average {mean} of {prepared.serving:,} nodes are missing."
    if spares:
        text += f" More nodes than the {spares:,} hot spares are missing for {_time(curves.simulated[spares])}"
        text += f"; of independent nodes for {_time(curves.independent[spares])}"
        text += "." if daily is None else f", with the mean of each day for {_time(daily[spares])}."
    yield text
    if down.dispersion is not None:
        yield _on_dispersion(down.dispersion, curves, focus)


def _on_dispersion(dispersion: float, curves: Exceedance, focus: ReplayedScenario) -> str:
    """Return how much more the number of missing nodes varies than that of independent ones, and why."""
    prepared, daily, beyond_days = focus.prepared, curves.daily, dispersion
    text = f"The variance of the number is {dispersion:.2g} times that of independent nodes with the same mean"
    if daily is not None:
        beyond_days = _variance(curves.simulated) / _variance(daily)
        text += f" at all times, and {beyond_days:.2g} times that of independent nodes with the mean of each day"
    takes_several, is_wider = _takes_several(prepared), max(beyond_days, dispersion) > _WIDER
    starts_new = focus.scenario.initial == "new" and not prepared.warmup
    has_tempo = any(
        source.tempo is not None or source.law is None or not source.law.memoryless for source in prepared.sources
    )
    reasons = {
        ". The run begins with all nodes healthy: the mean rises from none, and that makes it larger":
            dispersion > _WIDER and starts_new,
        ". Failure rates that change with time may make it larger": is_wider and has_tempo,
        ". Failures that take several nodes at once make it larger": beyond_days > _WIDER and takes_several,
        ". No cause here takes several nodes at once": is_wider and not takes_several,
    }  # fmt: skip
    return f"{text}{''.join(reason for reason, holds in reasons.items() if holds)}."


def _takes_several(prepared: Prepared) -> bool:
    sizes = {part: int(np.diff(offsets).max()) for part, (offsets, _) in prepared.blast.items() if len(offsets) > 1}
    return any(source.blast is not None or sizes.get(source.part, 1) > 1 for source in prepared.sources)


def _variance(curve: NDArray[np.float64]) -> float:
    """Return the variance of a count [-]: the sum of (2 k + 1) P(X > k), less the square of the mean."""
    return float((2 * np.arange(len(curve)) + 1) @ curve - curve.sum() ** 2)


def _quantile(curve: NDArray[np.float64], level: float) -> int:
    """Return the smallest number that is enough for a share of the time [-]."""
    return int(np.argmax(curve <= 1 - level))


def _time(share: float) -> str:
    if not share:
        return "none of the time"
    return "less than 0.01 % of the time" if share < _TINY else f"{PERCENT.value(float(share))} of the time"

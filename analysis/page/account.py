"""What sections about one scenario share: what was requested, owned and paid, and what small print and causes say."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ettrick.analysis.amounts import number_of
from ettrick.sim.units import YEAR

if TYPE_CHECKING:
    from collections.abc import Callable

    from ettrick.analysis.page.model import Section
    from ettrick.analysis.page.report_data import ReplayedScenario, ReportData
    from ettrick.analysis.page.sourced import SourcedNumber

_Share = TypeVar("_Share", float, "SourcedNumber")


class ResourceAccount(NamedTuple):
    """What a mean replication requested, owned and paid."""

    requested: float  # GPU-time that its jobs requested [GPU s]
    # All GPU-time of the cluster in the accounting window [GPU s]; ``None`` if it is not known.
    owned: float | None = None
    window: float | None = None  # length of the accounting window [s]; ``None`` with `owned`
    price: float | None = None  # all that was paid over the GPU-time owned [currency / GPU s]; ``None`` without prices
    currency: str = ""  # of the price; empty without prices

    @property
    def a_year(self) -> float | None:
        """How often the accounting window fits into a year [-]."""
        return YEAR / self.window if self.window else None


def account_of(focus: ReplayedScenario) -> ResourceAccount:
    """Return what a mean replication requested, owned and paid, from its document.

    The document has productive GPU-time as a share of what jobs requested and of what the cluster owned, so the one
    follows from the other; what was owned is not known where nothing was productive.
    """
    document = focus.document
    requested = sum(job.requested_gpu_s for job in document.per_job.values())
    shares = document.time_shares["productive"], document.cluster_shares["productive"]
    if not requested or not all(shares):
        return ResourceAccount(requested)
    owned = requested / requested_share(*shares)
    window = owned / (focus.prepared.nodes * focus.prepared.gpus_per_node)
    if document.cost is None or not document.cost.total:
        return ResourceAccount(requested, owned, window)
    return ResourceAccount(requested, owned, window, document.cost.total / owned, document.cost.currency)


def requested_share(of_requested: _Share, of_owned: _Share) -> _Share:
    """Return which share of the GPU-time owned jobs requested, from what the same GPU-time is of either [-]."""
    return of_owned / of_requested


def of_focus(make: Callable[[ReplayedScenario], Section | None]) -> Callable[[ReportData], Section | None]:
    """Return the section of a report that looks at one scenario; ``None`` where there is no scenario."""

    @functools.wraps(make)
    def section(report_data: ReportData) -> Section | None:
        return None if report_data.focus is None else make(report_data.focus)

    return section


def basis(focus: ReplayedScenario) -> str:
    """Return what the numbers of a section are means of, as a line of small print."""
    count = focus.document.replications
    if focus.known is not None or count == focus.wanted:
        return f"Of {focus.name}: means over all {number_of(count, 'replication')}."
    return f"Of {focus.name}: means over the first {count} of {focus.wanted} replications, simulated again."


def currency_of(report_data: ReportData) -> str:
    """Return the currency of the prices of a study or a scenario; empty without prices."""
    if report_data.sweep is not None:
        return str(report_data.sweep.currency or "")
    if report_data.study is not None:
        cost = report_data.study.template.scenario(report_data.study.common).cost
    else:
        cost = None if report_data.focus is None else report_data.focus.scenario.cost
    return "" if cost is None else str(cost.currency)

"""What a scenario asked for, owned and paid, and how sections tell its phases, causes and amounts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from analysis.amounts import number_of
from sim import NO_FAILURE
from sim.units import YEAR

if TYPE_CHECKING:
    from analysis.page.report_data import Focus, ReportData
    from analysis.page.sourced import SourcedNumber

_Share = TypeVar("_Share", float, "SourcedNumber")


class Account(NamedTuple):
    """What a mean replication asked for, owned and paid.

    Parameters
    ----------
    requested
        GPU-time that its jobs asked for [GPU s].
    owned
        All GPU-time of the cluster in the accounting window [GPU s]; ``None`` if nothing tells it.
    window
        Length of the accounting window [s]; ``None`` with `owned`.
    price
        All that was paid over the GPU-time owned [currency / GPU s]; ``None`` without prices.
    currency
        Of the price; empty without prices.
    """

    requested: float
    owned: float | None
    window: float | None
    price: float | None
    currency: str

    @property
    def a_year(self) -> float | None:
        """How often the accounting window fits into a year [-]."""
        return YEAR / self.window if self.window else None


def account_of(focus: Focus) -> Account:
    """Return what a mean replication asked for, owned and paid, from its document.

    The document has productive GPU-time as a share of what jobs requested and of what the cluster owned, so the one
    follows from the other; nothing tells what was owned where nothing was productive.
    """
    content = focus.document
    requested = sum(job.requested_gpu_s for job in content.per_job.values())
    shares = content.time_shares["productive"], content.cluster_shares["productive"]
    if not requested or not shares[0] or not shares[1]:
        return Account(requested, None, None, None, "")
    owned = requested / asked_for(*shares)
    window = owned / (focus.prepared.nodes * focus.prepared.gpus_per_node)
    cost = content.cost
    if cost is None or not cost.total:
        return Account(requested, owned, window, None, "")
    return Account(requested, owned, window, cost.total / owned, cost.currency)


_ABBREVIATIONS = re.compile(r"\b(?:gpu|cpu|hbm[0-9]*|nic|nccl|sram|ssd|io|ecc|dpu|psu)\b")

"""What is written in capitals in the name of a cause."""


def asked_for(of_requested: _Share, of_owned: _Share) -> _Share:
    """Return which share of the GPU-time owned jobs asked for, from what the same GPU-time is of either [-]."""
    return of_owned / of_requested


def basis(focus: Focus) -> str:
    """Return what the numbers of a section are means of, as a line of small print."""
    count = focus.document.replications
    if focus.known is not None or count == focus.wanted:
        return f"Of {focus.name}: means over all {number_of(count, 'replication')}."
    return f"Of {focus.name}: means over the first {count} of {focus.wanted} replications, played again."


def cause_name(cause: str) -> str:
    """Return what a cause is called."""
    if cause == NO_FAILURE:
        return "no failure"
    return _ABBREVIATIONS.sub(lambda found: found[0].upper(), cause.replace("_", " "))


# ----------------------------------------
# The currency of what is paid for.


def currency_of(report_data: ReportData) -> str:
    """Return the currency of the prices of a study or a scenario; empty without prices."""
    if report_data.sweep is not None:
        return str(report_data.sweep.currency or "")
    if report_data.study is not None:
        cost = report_data.study.template.scenario(report_data.study.common).cost
    else:
        cost = None if report_data.focus is None else report_data.focus.scenario.cost
    return "" if cost is None else str(cost.currency)

"""What a better variant gains as time: points of useful time, GPU-years, and what these cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.report.openings.numbers import COUNT, GPU_YEARS, PERCENT, POINTS, money_form, number
from analysis.report.sections.account import YEAR, asked_for

if TYPE_CHECKING:
    from analysis.report.openings.contest import Contest
    from analysis.report.openings.numbers import Estimate
    from analysis.report.words import Words

__all__ = ["WITH_SPEED", "gained", "in_gpu_years", "in_money", "of_time"]

WITH_SPEED = ("goodput", "effective_mfu")
"""Metrics in which useful time counts by the speed of a step."""


def gained(contest: Contest, best: str) -> Estimate | None:
    """Return which share of the time becomes useful; ``None`` where this alone does not make the variant better.

    That is where sizes of jobs differ, where a step has another speed, or where the time is not what is gained.
    """
    speed = contest.places.get("variants", best, "difference", "program_goodput")
    gain = contest.difference(best, "ettr")
    if contest.metric not in (*WITH_SPEED, "ettr") or contest.gpus(best) is None or gain is None:
        return None
    if contest.metric in WITH_SPEED and (speed is None or speed["mean"] != 0):
        return None
    return gain if contest.is_resolved(best, "ettr") and gain.mean.value > 0 else None


def of_time(contest: Contest, best: str) -> Words:
    """Return what is gained as time, which GPU-years follow from, with the goodput that it makes."""
    gain, change = gained(contest, best), contest.difference(best)
    shares = [contest.places.estimate("variants", name, "metrics", "ettr") for name in (best, contest.first)]
    after, before = shares
    if gain is None or change is None or after is None or before is None:
        return ()
    instead: Words = (number(after.mean, PERCENT, after.interval, ""), " instead of ",
                      number(before.mean, PERCENT, before.interval))  # fmt: skip
    both = (" (", *instead, "; ", *contest.amount(change), contest.of(), ")")
    return ("make ", *contest.amount(gain, POINTS), " more of the time useful", *both)


def in_gpu_years(contest: Contest, best: str) -> Words:
    """Return what the useful time that is gained comes to in a year."""
    gpus, gain = contest.gpus(best), gained(contest, best)
    if gpus is None or gain is None:
        return ()
    years = gain.changed(lambda share: share * gpus)
    return (
        ": that is ",
        *contest.amount(years, GPU_YEARS),
        " a year more of training that lasts, on ",
        number(gpus, COUNT),
        " GPUs",
    )


def in_money(contest: Contest, best: str) -> Words:
    """Return what as much GPU-time costs in a year at the price of all that is owned now; nothing without prices."""
    gain, places, at = gained(contest, best), contest.places, ("variants", contest.first)
    gpus, cost = contest.gpus(best), places.at(*at, "cost", "total")
    if gain is None or gpus is None or cost is None or cost.value <= 0:
        return ()
    requested = places.at(*at, "per_job", next(iter(places.get(*at, "per_job"))), "requested_gpu_s")
    of_requested, of_owned = (places.at(*at, of, "productive") for of in ("time_shares", "cluster_shares"))
    if requested is None or of_requested is None or of_owned is None or requested.value * of_requested.value <= 0:
        return ()
    owned = requested / asked_for(of_requested, of_owned)
    amount = gain.changed(lambda share: share * gpus * YEAR * (cost / owned))
    form = money_form(amount.mean.value, places.get(*at, "cost", "currency"))
    return (", worth ", number(amount.mean, form, amount.interval), " at what a GPU-hour of the cluster costs now")

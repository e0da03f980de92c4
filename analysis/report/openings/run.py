"""The first screen about one scenario: how much of the time becomes training, and where the rest goes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from analysis.answers.words import capital
from analysis.plots.charts import Bar, Bars
from analysis.report.model import Column, Grid, Opening, Picture
from analysis.report.openings.doubt import chance, luck, not_covered, not_known, stated
from analysis.report.openings.glossary import bucket_words, cause_words, glossed
from analysis.report.openings.numbers import (
    COUNT,
    GPU_YEARS,
    OF_HUNDRED,
    PERCENT,
    POINTS,
    Estimate,
    Places,
    Traced,
    gpu_hours_form,
    money_form,
    number,
    time_form,
    told,
    total,
)
from analysis.report.sections.account import asked_for
from analysis.report.words import joined, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.answers.words import Form
    from analysis.report.material import Material
    from analysis.report.words import Number, Words

__all__ = ["opening"]

_MOST_BARS = 8
_LEAST_SHARE = 5e-5
_MOST_JOBS = 20
"""Jobs whose numbers are added up in a formula that somebody may still want to follow."""
_SAME = 5e-4
"""A difference of shares that rounds to nothing."""
_FEW = 4
"""Below so many runs the width of an interval says little, and nothing of how many digits a mean has."""
_NEXT = 0.1
"""What comes second is told where it is at least this part of the first."""
_NORMAL = 1.96
"""Half the width of a 95 % interval of a normal distribution, in standard deviations."""


class _Loss(NamedTuple):
    """A bucket that time was lost in, and its share of the time."""

    bucket: str
    share: Traced


def opening(material: Material) -> Opening:
    """Return the first screen."""
    places = Places(material.results.file, material.main)
    ettr = places.estimate("metrics", "ettr")
    losses = _losses(places)
    description = material.focus.scenario.description if material.focus is not None else ""
    is_priced = places.at("cost", "total") is not None
    otherwise = stated(None if material.focus is None else material.focus.scenario, priced=is_priced)
    runs = places.at("replications")
    what = "the share of the time that becomes training"
    doubt = (
        not_known(places, "metrics", "ettr", form=PERCENT, what=what, otherwise=otherwise),
        chance(runs, ettr),
        luck(places, "metrics", "ettr", form=PERCENT),
    )
    return glossed(
        Opening(
            question=_question(description, places.get("scenario")),
            answer=_answer(places, ettr, losses),
            doubt=joined(doubt) if ettr is not None else (),
            picture=_picture(losses) if ettr is not None else None,
            drivers=tuple(words for words in _drivers(places, losses) if words)[:3],
            not_covered=not_covered(places.get("notes"), places.get("warnings"), places.get("assumptions")),
        )
    )


def _question(description: str, name: str) -> str:
    """Return what was asked, in the words of the scenario as far as it has some."""
    text = description.strip() or name
    return text if text.endswith("?") else f"{text.rstrip('.')}: how much of the time becomes training?"


def _answer(places: Places, ettr: Estimate | None, losses: list[_Loss]) -> Words:
    """Return the answer in one sentence."""
    if ettr is None:
        return ("No job got to run, so no time was asked for that could become training.",)
    asks = "the job asks for" if len(places.get("per_job")) == 1 else "the jobs ask for"
    share = (_mean(places, ettr, OF_HUNDRED), *told(ettr, OF_HUNDRED)[1:])
    start: Words = (f"Of every hundred GPU-hours that {asks}, ", *share, " become training that lasts")
    if not losses:
        return (*start, "; nothing is lost.")
    goes = ", goes mostly to " if _is_most(losses) else ", goes first of all to "
    to = ", then to ".join(bucket_words(loss.bucket) for loss in (losses[0], *_next(losses)))
    lost = ettr.changed(lambda share: 1 - share)
    return (*start, "; the rest", *_in_gpu_time(places, lost), *_in_money(places, lost), goes, f"{to}.")


def _in_gpu_time(places: Places, lost: Estimate) -> Words:
    """Return what is lost, as GPU-time: a year of one job, or a whole run of several."""
    jobs = list(places.get("per_job"))
    gpus = places.at("per_job", jobs[0], "gpus") if len(jobs) == 1 else None
    if gpus is not None:
        years = lost.changed(lambda share: share * gpus)
        return (", about ", _mean(places, years, GPU_YEARS), " a year on ", number(gpus, COUNT), " GPUs")
    requested = _requested(places)
    if requested is None:
        return ()
    hours = lost.changed(lambda share: share * requested)
    form = gpu_hours_form(hours.mean.value)
    return (", about ", _mean(places, hours, form), " of the run")


def _in_money(places: Places, lost: Estimate) -> Words:
    """Return what the lost time costs at the price of all GPU-time that is owned; nothing without prices."""
    cost, shares = places.at("cost", "total"), [places.at(of, "productive") for of in ("time_shares", "cluster_shares")]
    of_requested, of_owned = shares
    if cost is None or cost.value <= 0 or of_requested is None or of_owned is None or of_requested.value <= 0:
        return ()
    amount = lost.changed(lambda share: share * asked_for(of_requested, of_owned) * cost)
    form = money_form(cost.value, places.get("cost", "currency"))
    return (" or ", _mean(places, amount, form), " of the ", number(cost, form), " that the cluster costs")


def _mean(places: Places, found: Estimate, form: Form) -> Number:
    """Return a mean, with the digits that its interval deserves where that comes from enough runs."""
    return number(found.mean, form, None if places.get("replications") < _FEW else found.interval)


def _is_most(losses: Sequence[_Loss]) -> bool:
    """Return whether the largest loss is more than all others together."""
    return losses[0].share.value > sum(loss.share.value for loss in losses[1:])


def _next(losses: Sequence[_Loss]) -> Sequence[_Loss]:
    """Return what is lost next to most, if that is worth a word."""
    return [loss for loss in losses[1:2] if loss.share.value >= _NEXT * losses[0].share.value]


def _requested(places: Places) -> Traced | None:
    """Return the GPU-time that all jobs ask for [GPU s]; ``None`` where too many would have to be added up."""
    jobs = list(places.get("per_job"))
    found = [places.at("per_job", name, "requested_gpu_s") for name in jobs[:_MOST_JOBS]]
    return total(part for part in found if part is not None) if len(jobs) <= _MOST_JOBS else None


def _losses(places: Places) -> list[_Loss]:
    """Return where time was lost, the most first."""
    found = [(name, places.at("time_shares", name)) for name in places.get("time_shares") if name != "productive"]
    kept = [_Loss(name, share) for name, share in found if share is not None and share.value >= _LEAST_SHARE]
    return sorted(kept, key=lambda loss: -loss.share.value)


def _drivers(places: Places, losses: list[_Loss]) -> list[Words]:
    """Return what drives the answer, the most important first."""
    return [_finish(places), _largest(places, losses), _rhythm(places), _formula(places), _costliest(places)]


def _finish(places: Places) -> Words:
    """Return when a fixed amount of work is done; nothing without one."""
    found = places.estimate("metrics", "time_to_work")
    chances = places.estimate("metrics", "p_finish_by")
    in_time: Words = () if chances is None else ("the probability to finish in time is ", *told(chances, PERCENT))
    if found is None:
        return (capital(str(in_time[0])), *in_time[1:], ".") if in_time else ()
    done: Words = ("The work is done after ", *told(found, time_form(found.mean.value)))
    return (*done, "; ", *in_time, ".") if in_time else (*done, ".")


def _largest(places: Places, losses: list[_Loss]) -> Words:
    """Return the largest losses in GPU-hours."""
    if not losses:
        return ()
    requested = _requested(places)

    def one(loss: _Loss) -> Words:
        share = number(loss.share, PERCENT)
        if requested is None:
            return (share,)
        hours = loss.share * requested
        return (share, " of the time, ", number(hours, gpu_hours_form(hours.value)), " of a run")

    rest: list[Words] = [
        (f"; next comes {bucket_words(loss.bucket)}: ", number(loss.share, PERCENT)) for loss in _next(losses)
    ]
    return (f"{_first(losses)}: ", *one(losses[0]), *joined(rest), ".")


def _first(losses: Sequence[_Loss]) -> str:
    """Return where most is lost, as the start of a sentence."""
    where = bucket_words(losses[0].bucket)
    return f"Most of what is lost goes to {where}" if _is_most(losses) else f"The largest loss is {where}"


def _rhythm(places: Places) -> Words:
    """Return how often failures hit, and which kind does so most often."""
    number_of, jobs = places.estimate("metrics", "interruptions"), len(places.get("per_job"))
    if number_of is None:
        return ()
    length = _length(places)
    span: Words = (" in a run",) if length is None else (" in a run of ", number(length, time_form(length.value)))
    if number_of.mean.value == 0:
        return ("Nothing interrupts training", *span, ".")
    between = places.estimate("metrics", "mtti")
    every: Words = ()
    if between is not None:
        every = (" every ", *_by_counts(places, between, time_form(between.mean.value)), ":")
    who, times = "training" if jobs == 1 else "a job", _by_counts(places, Estimate(number_of.mean), COUNT)
    start: Words = (f"A failure interrupts {who}", *every, " ", *times)
    causes = list(places.get("interruptions_by_cause"))
    most = places.at("interruptions_by_cause", causes[0], "mean") if len(causes) > 1 else None
    often: Words = () if most is None else (f"; the most frequent is {cause_words(causes[0])}, ", number(most, COUNT))
    of_all = () if jobs == 1 else (", all jobs together",)
    return (*start, " times", *span, *of_all, *often, ".")


def _by_counts(places: Places, found: Estimate, form: Form) -> Words:
    """Return a mean of interruptions or of times between them, with an interval where there are enough runs for one.

    Elsewhere as many digits are told as the interruptions counted in all runs deserve: their variance is taken to be
    their mean, as for a Poisson process.
    """
    runs, mean = places.get("replications"), found.mean
    if runs >= _FEW and found.low is not None and found.low.value > 0:
        return told(found, form)
    counted = runs * places.get("metrics", "interruptions", "mean")
    half = _NORMAL * mean.value / math.sqrt(counted)
    return (number(mean, form, (mean.value - half, mean.value + half)),)


def _length(places: Places) -> Traced | None:
    """Return the time from arrival to end of the one job [s]; ``None`` for several, which end at different times."""
    jobs = list(places.get("per_job"))
    if len(jobs) != 1:
        return None
    requested, gpus = (places.at("per_job", jobs[0], key) for key in ("requested_gpu_s", "gpus"))
    return None if requested is None or not gpus or not gpus.value else requested / gpus


def _formula(places: Places) -> Words:
    """Return what a formula says of the same; nothing where there is none."""
    formula, ettr = places.at("closed_form", "ettr"), places.estimate("metrics", "ettr")
    if formula is None or ettr is None:
        return ()
    start: Words = ("A formula of theory comes to ", number(formula, PERCENT), " without simulating")
    away = ettr.mean - formula
    outside = places.at("closed_form", "simulated", "outside_ci95")
    if abs(away.value) < _SAME or (outside is not None and outside.value == 0):
        return (*start, ": the two agree, as far as chance lets one tell.")
    side = "above" if away.value > 0 else "below"
    why = "." if outside is None else ", which is more than chance: the formula leaves something out."
    return (*start, "; the simulation is ", number(abs(away), POINTS), f" {side} it{why}")


def _costliest(places: Places) -> Words:
    """Return which cause loses most time."""
    found = []
    for cause, buckets in places.get("loss_gpu_s").items():
        lost = total(
            part for name in buckets if (part := places.at("loss_gpu_s", cause, name)) is not None and part.value
        )
        if lost is not None and cause != "no_failure":
            found.append((cause, lost))
    if not found:
        return ()
    cause, most = max(found, key=lambda entry: entry[1].value)
    return (
        f"Of all failures, {cause_words(cause)} costs most: ",
        number(most, gpu_hours_form(most.value)),
        " of a run.",
    )


def _picture(losses: list[_Loss]) -> Picture | None:
    """Return what the lost time goes to."""
    if not losses:
        return None
    shown = losses[:_MOST_BARS]
    rows = tuple(Bar(capital(bucket_words(loss.bucket)), (100 * loss.share.value,)) for loss in shown)
    title = _first(losses)
    table = Grid(
        title,
        (Column("what the time goes to", is_number=False), Column("share of the time")),
        [(row.name, PERCENT.plain(loss.share.value)) for row, loss in zip(rows, shown, strict=True)],
    )
    alt = plain(("Bars of the lost time: ", "; ".join(f"{name} {share}" for name, share in table.rows[:3]), "."))
    return Picture("at-a-glance", Bars(title, "% of the time", ("share",), rows), alt, table=table)

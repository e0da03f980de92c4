"""The first screen about one scenario: how much of the time becomes training, and where the rest goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from analysis.answers.words import capital
from analysis.plots.charts import Bar, Bars
from analysis.report.model import Column, Grid, Opening, Picture
from analysis.report.openings.doubt import EXACTLY, RECORDED, chance, luck, not_covered, not_known
from analysis.report.openings.glossary import bucket_words, cause_words, glossed
from analysis.report.openings.numbers import (
    COUNT,
    GPU_YEARS,
    OF_HUNDRED,
    PERCENT,
    POINTS,
    Places,
    Traced,
    gpu_hours_form,
    money_form,
    number,
    time_form,
    told,
    total,
)
from analysis.report.words import joined, plain

if TYPE_CHECKING:
    from analysis.report.material import Material
    from analysis.report.openings.numbers import Estimate
    from analysis.report.words import Words

__all__ = ["opening"]

_MOST_BARS = 8
_LEAST_SHARE = 5e-5
_MOST_JOBS = 20
"""Jobs whose numbers are added up in a formula that somebody may still want to follow."""
_SAME = 5e-4
"""A difference of shares that rounds to nothing."""


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
    replayed = material.focus is not None and any(source.use == "replay" for source in material.focus.scenario.failures)
    runs = places.at("replications")
    what = "the share of the time that becomes training"
    doubt = (
        not_known(places, "metrics", "ettr", form=PERCENT, what=what, otherwise=RECORDED if replayed else EXACTLY),
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
    start: Words = (f"Of every hundred GPU-hours that {asks}, ", *told(ettr, OF_HUNDRED), " become training that lasts")
    if not losses:
        return (*start, "; nothing is lost.")
    mostly = ", then to ".join(bucket_words(loss.bucket) for loss in losses[:2])
    lost = ettr.changed(lambda share: 1 - share)
    return (*start, "; the rest", *_in_gpu_time(places, lost), *_in_money(places, lost), f", goes mostly to {mostly}.")


def _in_gpu_time(places: Places, lost: Estimate) -> Words:
    """Return what is lost, as GPU-time: a year of one job, or a whole run of several."""
    jobs = list(places.get("per_job"))
    gpus = places.at("per_job", jobs[0], "gpus") if len(jobs) == 1 else None
    if gpus is not None:
        years = lost.changed(lambda share: share * gpus)
        return (", about ", number(years.mean, GPU_YEARS, years.interval), " a year on ", number(gpus, COUNT), " GPUs")
    requested = _requested(places)
    if requested is None:
        return ()
    hours = lost.changed(lambda share: share * requested)
    form = gpu_hours_form(hours.mean.value)
    return (", about ", number(hours.mean, form, hours.interval), " of the run")


def _in_money(places: Places, lost: Estimate) -> Words:
    """Return what the lost time costs at the mean price of the time that is asked for; nothing without prices."""
    cost = places.at("cost", "total")
    if cost is None or cost.value <= 0:
        return ()
    amount = lost.changed(lambda share: share * cost)
    form = money_form(cost.value, places.get("cost", "currency"))
    return (" or ", number(amount.mean, form, amount.interval), " of the ", number(cost, form), " that the run costs")


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

    first = (f"Most of what is lost goes to {bucket_words(losses[0].bucket)}: ", *one(losses[0]))
    if len(losses) == 1:
        return (*first, ".")
    return (*first, f"; next comes {bucket_words(losses[1].bucket)}: ", number(losses[1].share, PERCENT), ".")


def _rhythm(places: Places) -> Words:
    """Return how often failures hit, and which kind does so most often."""
    number_of = places.estimate("metrics", "interruptions")
    length = _length(places)
    if number_of is None or length is None:
        return ()
    span: Words = (" in a run of ", number(length, time_form(length.value)))
    if number_of.mean.value == 0:
        return ("Nothing interrupts training", *span, ".")
    between = places.estimate("metrics", "mtti")
    every: Words = () if between is None else (" every ", *told(between, time_form(between.mean.value)), ":")
    start: Words = ("A failure interrupts training", *every, " ", number(number_of.mean, COUNT, number_of.interval))
    causes = list(places.get("interruptions_by_cause"))
    most = places.at("interruptions_by_cause", causes[0], "mean") if len(causes) > 1 else None
    often: Words = () if most is None else (f"; the most frequent is {cause_words(causes[0])}, ", number(most, COUNT))
    return (*start, " times", *span, *often, ".")


def _length(places: Places) -> Traced | None:
    """Return how long a run is looked at [s]."""
    horizon, warmup = places.at("horizon_s"), places.at("warmup_s")
    if horizon is None or warmup is None:
        return horizon
    return horizon if warmup.value == 0 else horizon - warmup


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
    title = f"Most of what is lost goes to {bucket_words(shown[0].bucket)}"
    table = Grid(
        title,
        (Column("what the time goes to", is_number=False), Column("share of the time")),
        [(row.name, PERCENT.plain(loss.share.value)) for row, loss in zip(rows, shown, strict=True)],
    )
    alt = plain(("Bars of the lost time: ", "; ".join(f"{name} {share}" for name, share in table.rows[:3]), "."))
    return Picture("at-a-glance", Bars(title, "% of the time", ("share",), rows), alt, table=table)

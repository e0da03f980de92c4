"""What a comparison is about, for its first screen: the metric, how it is told, and what each variant is called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.metrics import lower_is_better
from analysis.report.openings.glossary import metric_words
from analysis.report.openings.numbers import Places, number, people_form, points_form, ranged
from analysis.report.sections.pairs import variant_labels

if TYPE_CHECKING:
    from analysis.answers.words import Form
    from analysis.report.openings.numbers import Estimate, Traced
    from analysis.report.words import Words

__all__ = ["Contest", "contest_of"]


@dataclass(frozen=True)
class Contest:
    """What is compared: the document, the metric, how it is told, and what each variant is called."""

    places: Places
    metric: str
    form: Form
    labels: dict[str, str]

    @property
    def first(self) -> str:
        """The variant that the others are held against."""
        return str(self.places.get("first"))

    @property
    def order(self) -> list[str]:
        """The variants, best first; empty where there is no rank."""
        return list(self.places.get("order"))

    @property
    def step(self) -> Form:
        """How differences are told."""
        return points_form(self.form)

    def difference(self, name: str, metric: str = "") -> Estimate | None:
        """Return how far a variant is above the first one."""
        return self.places.estimate("variants", name, "difference", metric or self.metric, interval="ci95")

    def is_resolved(self, name: str, metric: str = "") -> bool:
        """Return whether this is more than chance; a difference that all runs share counts as well."""
        found = self.places.get("variants", name, "difference", metric or self.metric)
        return found is not None and bool(found["resolved"])

    def amount(self, size: Estimate, step: Form | None = None) -> Words:
        """Return a difference as a range, or as what it is in every run; of another metric as differences of it are."""
        if size.low is None or size.high is None:
            return (number(size.mean, step or self.step),)
        return ranged(size.low, size.high, step or self.step)

    def of(self, between: str = "to") -> str:
        """Return of what a difference is, as it stands behind it."""
        if self.metric.startswith(("tokens", "cost", "steps")):
            return ""
        is_share = self.form.step == "points" and self.metric not in ("goodput", "effective_mfu")
        return f" {between if is_share else 'of'} {metric_words(self.metric)}"

    def verb(self, *, better: bool) -> str:
        """Return what a change to a better or worse variant does."""
        if lower_is_better(self.metric):
            return "save" if better else "cost"
        return "add" if better else "lose"

    def gpus(self, best: str) -> Traced | None:
        """Return the GPUs of the one job, where it is as large in both variants."""
        found = []
        for name in (self.first, best):
            jobs = list(self.places.get("variants", name, "per_job"))
            if len(jobs) != 1:
                return None
            found.append(self.places.at("variants", name, "per_job", jobs[0], "gpus"))
        one, other = found
        return one if one is not None and other is not None and one.value == other.value else None


def contest_of(places: Places) -> Contest:
    """Return what a document of a comparison is about."""
    metric = places.get("headline")
    variants = places.get("variants")
    costs = [variant["cost"]["currency"] for variant in variants.values() if variant["cost"] is not None]
    means = [places.at("variants", name, "metrics", metric, "mean") for name in variants]
    form = people_form(metric, [mean.value for mean in means if mean is not None], costs[0] if costs else "")
    return Contest(places, metric, form, variant_labels(list(variants)))

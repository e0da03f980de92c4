"""Health checks and predictions: who takes nodes out before they fail, and how often that is wrong."""

# Annotations are not postponed: pydantic would compile each at the start.
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from ettrick.sim.failures.effects import Fault
from ettrick.sim.policies.detection.race import DetectionRace, Detector
from ettrick.sim.scenario.fields import Duration, Fraction, Model, Rate, default
from ettrick.sim.scenario.laws import Law, Uniform

if TYPE_CHECKING:
    from ettrick.sim.failures.source import FailureSource
    from ettrick.sim.scenario.fields import BrokenRules

FALSE_ALARM = "false_alarm"
"""The cause of what false alarms cost."""

CHECK = "health-check"

"""The observer that a periodic check is."""


def _normal(deviations: float) -> float:
    """Return the standard normal distribution function [-]."""
    return 0.5 * (1.0 + math.erf(deviations / math.sqrt(2.0)))


class HealthScore(Model):
    """A score of each node, taken again and again: an alarm is given above a threshold.

    The score of a healthy node is normal with a mean of 0 and a deviation of 1; with signs of a failure the mean is
    `separation` (the equal-variance binormal model of an ROC curve: Green and Swets, Signal Detection Theory and
    Psychophysics, 1966). With Phi the normal distribution, the recall is Phi(separation - threshold), and a healthy
    node gives a false alarm with Phi(-threshold) at each score.
    """

    threshold: float = Field(ge=-10, le=10, description="Score above which an alarm is given, in deviations.")
    separation: float = Field(gt=0, le=20, description="Mean score of a node that is about to fail, in deviations.")
    every: Duration = Field(gt=0, description="Time between two scores of a node.")

    @property
    def recall(self) -> float:
        """Share of the failures whose signs are seen [-]."""
        return _normal(self.separation - self.threshold)

    @property
    def false_alarms(self) -> float:
        """False alarms of a node [1/s]."""
        return _normal(-self.threshold) / self.every


class Prediction(Model):
    """Signs of failures to come: the job saves, and the node is drained before it fails."""

    recall: Fraction | None = Field(None, description="Share of the failures whose signs are seen.")
    precision: Fraction | None = Field(
        None, description="Share of the alarms that a failure follows: with recall it says how many are false."
    )
    score: HealthScore | None = Field(None, description="Instead of recall and precision: a score with a threshold.")
    lead: Law = Field(description="From the sign to the failure; a job saves if a save takes no longer.")
    faults: tuple[Fault, ...] | None = Field(
        None, description="Classes of faults that show signs; without it, all that stop single nodes."
    )

    def _broken_rules(self) -> "BrokenRules":
        if self.score is not None and (self.recall is not None or self.precision is not None):
            yield ("score",), "says recall and precision itself: leave those out, or the score"
        if self.score is None and (self.recall is None or self.precision is None):
            yield (), "give recall and precision, or a score"
        if self.precision == 0:
            rule = "must be above 0, such as 1 %: at 0 there would be no end of false alarms; if it predicts nothing, "
            yield ("precision",), rule + "say recall: 0 and how many false_alarms there are"

    def of_failures(self, source: "FailureSource") -> float:
        """Return the share of the failures of a source whose signs are seen [-]."""
        if not _is_of_nodes(source, self.faults) or not source.effect.stops:
            return 0.0
        return self.score.recall if self.score is not None else self.recall or 0.0

    def false_alarms(self, rate: float, nodes: int) -> float:
        """Return the false alarms of all `nodes`, next to failures that show signs at a `rate` [1/s]."""
        if self.score is not None:
            return self.score.false_alarms * nodes
        if self.precision is None:
            return 0.0
        return rate * (self.recall or 0.0) * (1 - self.precision) / self.precision


class Preflight(Model):
    """A test of each node before it joins a job, for faults that have not shown yet."""

    time: Duration = default("0 s", description="How long a job stands still for it.")
    coverage: Fraction = Field(1.0, description="Share of the faults that it finds; the others it never finds.")
    faults: tuple[Fault, ...] | None = Field(
        None, description="Classes of faults that it looks for; without it, all of single nodes."
    )

    def share(self, source: "FailureSource") -> float:
        """Return the share of the faults of a source that it finds [-]: of hidden ones, and those that stop nobody."""
        is_there_before = source.hidden is not None or source.residue is not None or not source.effect.stops
        return self.coverage if is_there_before and _is_of_nodes(source, self.faults) else 0.0


class Checks(Preflight):
    """Such tests of all nodes again and again: a fault that is found has waited anything up to the time between two."""

    every: Duration = Field(gt=0, description="Time between two checks.")

    def watched(self, source: "FailureSource") -> "FailureSource":
        """Return a source whose faults are looked for."""
        share, race = self.share(source), source.detection_race
        if not share:
            return source
        if source.hidden is not None or source.residue is not None:
            source = replace(source, checked=(share, self.every))
        if source.effect.stops:
            return source
        check = Detector(CHECK, share, Uniform.from_seconds(low=0.0, high=self.every))
        race = DetectionRace((check,)) if race is None else DetectionRace((*race.observers, check), race.human)
        return replace(source, detection_race=race)


class Health(Model):
    """The health checks that look for nodes about to fail, or failed unseen, and their errors."""

    prediction: Prediction | None = Field(None, description="Signs of failures to come.")
    false_alarms: Rate | None = Field(
        None, description="Healthy nodes that are drained, in addition to the false alarms of the prediction."
    )
    test: Law | None = Field(
        None, description="How long a healthy node that was drained is away; without it, as the scenario's repair."
    )
    preflight: Preflight | None = Field(None, description="Checks of nodes before they join a job.")
    checks: Checks | None = Field(None, description="Checks of all nodes again and again.")

    def watched(self, source: "FailureSource") -> "FailureSource":
        """Return a source as those see it who look for bad nodes."""
        if self.prediction is not None and (recall := self.prediction.of_failures(source)):
            source = replace(source, recall=recall, lead=self.prediction.lead)
        if self.preflight is not None:
            source = replace(source, preflight=self.preflight.share(source))
        return source if self.checks is None else self.checks.watched(source)

    def _broken_rules(self) -> "BrokenRules":
        if self.false_alarms is not None and self.false_alarms.of not in ("", "node"):
            yield ("false_alarms",), f"is per node, not per {self.false_alarms.of}: 1 per 1000 node-days"


def _is_of_nodes(source: "FailureSource", faults: tuple[Fault, ...] | None) -> bool:
    """Return whether a source strikes single nodes unplanned, with faults of some classes."""
    is_single = bool(source.slots_per_node) and not source.planned and not source.of_fabric
    return is_single and (faults is None or source.fault in faults)

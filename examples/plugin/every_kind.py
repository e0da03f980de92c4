"""One of every other kind that a package can bring, each as short as it can be."""

import json
from typing import ClassVar, Literal

from pydantic import Field

from ettrick.analysis.page.model import Section
from ettrick.analysis.study.amounts import Point
from ettrick.analysis.study.designs import Design
from ettrick.analysis.study.distributions import Distribution
from ettrick.analysis.study.questions.question import Answer, Question, labels_of, mean_of
from ettrick.sim.cluster.fabric import FatTree
from ettrick.sim.failures.parts import Component
from ettrick.sim.policies.checkpoint.tiers import Tier, Tiers
from ettrick.sim.policies.detection.kinds import Detection
from ettrick.sim.policies.detection.race import DetectionRace
from ettrick.sim.policies.detection.watchers import Watcher
from ettrick.sim.policies.repair import Simple
from ettrick.sim.scenario.fields import Duration, Strategy
from ettrick.sim.scenario.laws import Fixed, Law

# Of scenarios.


class RentedNode(Component):
    """A node of a cloud: its mean time between failures is that of the contract."""

    use: Literal["rented-node"] = "rented-node"
    part: Literal["node"] = "node"
    law: Law = Field({"use": "exponential", "mean": "50 d"}, description="Life of a node.", validate_default=True)


class Hourly(Tiers):
    """A checkpoint to remote storage every hour."""

    use: Literal["hourly"] = "hourly"
    tiers: tuple[Tier, ...] = Field(
        ({"interval": "1 h", "mode": "blocking", "write": "30 s", "restore": "60 s"},),
        validate_default=True,
        description="The stores.",
    )


class Pager(Detection):
    """The engineer on call notices whatever it is."""

    use: Literal["pager"] = "pager"
    wakes: Duration = Field("15 min", description="From a fault to the engineer.")

    def unscaled(self, fault, kind):
        """Return who notices a fault, and when."""
        return DetectionRace.by(Fixed.from_seconds(value=self.wakes))


class Ping(Watcher):
    """A monitor that asks each node whether it is there, and knows of faults of whole hosts alone."""

    use: Literal["ping"] = "ping"
    covers: dict[str, float] = Field({"host": 1.0}, description="Share of the faults that it sees, by class.")

    def law_of(self, fault):
        """Return how long it takes."""
        return Fixed.from_seconds(value=30.0)


class NextDay(Simple):
    """A technician comes the next day."""

    use: Literal["next-day"] = "next-day"
    time: Law = Field("1 d", description="Until the node is back.")


class Twice(Strategy):
    """A node that is blamed a second time is a lemon."""

    use: Literal["twice"] = "twice"

    def blame(self, memory, time, uptime):
        """Return what is remembered of a node, and whether it is a lemon."""
        return (memory or 0) + 1, memory is not None

    def score(self, memory):
        """Fewer blames are better."""
        return -float(memory or 0)


class OneRail(FatTree):
    """A fat tree with one NIC for each node."""

    use: Literal["one-rail"] = "one-rail"
    rails: int = Field(1, description="NICs for each node.")


# Of studies.


class Diagonal(Design):
    """The first value of every axis, then the second of every axis, and so on."""

    use: Literal["diagonal"] = "diagonal"

    def count(self, axes):
        """Return the number of points."""
        return min(len(axis.values(name)) for name, axis in axes.items() if not axis.is_uncertain)

    def points(self, axes, rng):
        """Yield the points: number, cell, draw, and a value for each axis; what is unknown stays at its centre."""
        columns = [
            axis.each(name, [0.5] * self.count(axes)) if axis.is_uncertain else axis.values(name)
            for name, axis in axes.items()
        ]
        for number, values in enumerate(zip(*columns, strict=False)):
            yield Point(number, number, 0, values)


class Parabola(Distribution):
    """Between two amounts, the upper ones more likely: the density rises like the square."""

    use: Literal["parabola"] = "parabola"
    located: ClassVar = ("low", "high")
    low: str | float = Field(description="Smallest amount.")
    high: str | float = Field(description="Largest amount.")

    def ppf(self, u):
        """Return the quantile of a probability."""
        low, high = self.amounts.numbers
        return low + (high - low) * u ** (1 / 3)


class Spread(Question):
    """How far the best and the worst combination lie apart."""

    use: Literal["spread"] = "spread"
    metric: str = Field("", description="The metric; omitted: the first one of the study.")

    def answer(self, table):
        """Return the answer: numbers for JSON, and a sentence for reports."""
        metric = self.metric or table.metrics[0]
        known = [cell for cell in table.running if mean_of(cell, metric) is not None]
        if len(known) < 2:
            return Answer(self.use, {}, "Fewer than two combinations have results.")
        low, *_, high = sorted(known, key=lambda cell: mean_of(cell, metric))
        data = {"low": mean_of(low, metric), "high": mean_of(high, metric), "at": labels_of(table, high)}
        words = f"{metric} lies between {data['low']:.4g} and {data['high']:.4g}."
        return Answer(self.use, data, sentences=(words,))


# Of reports.


def signature(data):
    """Return a section at the end: key, title, paragraphs."""
    return Section("signature", "Who is responsible", (f"The reliability team, for {data.kind} results.",))


def as_json(report):
    """Return the titles of a report as the bytes of a file."""
    return json.dumps([section.title for section in report.sections]).encode()

"""Detection by several observers: the earliest that covers a fault notices it, else a human does."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, field_validator

from sim.detection.base import Detection
from sim.detection.in_job import CollectiveTimeout, Heartbeat, InBand, Nvrx
from sim.detection.of_nodes import Kubernetes, NodeAgent, Slurm
from sim.detection.of_results import SdcCheck, Straggler
from sim.detection.watcher import SILENT
from sim.fields import Model, OneOf, RuleError
from sim.laws import Fixed, Law
from sim.noticing import Noticing

__all__ = ["Human", "Observers"]

AnyWatcher: TypeAlias = (
    InBand | NodeAgent | Heartbeat | CollectiveTimeout | Slurm | Kubernetes | Nvrx | Straggler | SdcCheck
)


class Human(Model):
    """Somebody who looks after the job now and then. A job that stands still is always noticed in the end.

    A median of 15 min with 4 h at the 95th percentile is an assumption, and so are 8 h with 5 d for what only shows in
    results; sigma = ln(p95 / median) / 1.645.
    """

    latency: Law = Field(
        {"law": "lognormal", "median": "15 min", "sigma": 1.685},  # type: ignore[assignment]
        description="Time until a job that stands still, or a loss that has left its course, is noticed. The default "
        "is an assumption: median 15 min, 95 % within 4 h.",
    )
    silent: Law = Field(
        {"law": "lognormal", "median": "8 h", "sigma": 1.646},  # type: ignore[assignment]
        description="Time until a node that is slow or computes wrongly is found; 100 year stands for never. The "
        "default is an assumption: median 8 h, 95 % within 5 d.",
    )


class Observers(Detection):
    """Observers watch nodes and jobs, each for some classes of faults; the earliest that covers a fault notices it.

    What none of them covers waits for a human. Slow nodes, wrong results and loss spikes do not stop the job: only who
    covers these classes sees them.
    """

    use: Literal["observers"] = "observers"
    observers: tuple[Annotated[AnyWatcher, OneOf("observer")], ...] = Field(
        (),
        description="Who watches, each kind once. What is stated by class (covers, latency) replaces the default of "
        "that class alone.",
    )
    human: Human = Field(default_factory=Human, description="Who notices what no observer covers.")

    @field_validator("observers")
    @classmethod
    def _each_once(cls, observers: tuple[AnyWatcher, ...]) -> tuple[AnyWatcher, ...]:
        names = [watcher.observer for watcher in observers]
        for place, name in enumerate(names):
            if name in names[:place]:
                raise RuleError((place,), f"'{name}' is there twice; each kind of observer watches once")
        return observers

    def unscaled(self, fault: str, kind: str) -> Noticing:
        """Return who notices faults of a class whose effect is of some `kind`."""
        if fault == "planned":
            return Noticing.by(Fixed.from_seconds(value=0.0))
        seen = (watcher.sees(fault, kind) for watcher in self.observers)
        watching = tuple(observer for observer in seen if observer is not None)
        human = self.human.silent if SILENT.get(kind) in ("slow", "corrupt") else self.human.latency
        return Noticing(watching, human)

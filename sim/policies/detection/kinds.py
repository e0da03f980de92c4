"""Detection by several observers: the earliest that covers a fault detects it, else an operator."""

# Annotations are not postponed: pydantic would compile each at the start.
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, get_args

from pydantic import Field, field_validator

from ettrick.sim.policies.detection.race import DetectionRace
from ettrick.sim.policies.detection.watchers import (
    SILENT,
    CollectiveTimeout,
    Heartbeat,
    InBand,
    Kubernetes,
    NodeAgent,
    Nvrx,
    SdcCheck,
    Slurm,
    Straggler,
)
from ettrick.sim.scenario.fields import Model, OneOf, RuleError, Strategy, default
from ettrick.sim.scenario.laws import Fixed, Law

if TYPE_CHECKING:
    from ettrick.sim.scenario.law_model import LawModel


class Detection(Strategy, ABC):
    """From a fault to the moment when somebody notices it. Tested by the harness ``check_detection``."""

    scale: float = Field(1.0, gt=0, description="Multiplies all times of detection.")

    @abstractmethod
    def unscaled(self, fault: str, kind: str) -> DetectionRace | None:
        """Return `detection_race` as it is with a scale of 1."""

    def detection_race(self, fault: str, kind: str) -> DetectionRace | None:
        """Return who notices a fault, and when; ``None`` if it stays undetected, so that the job steps on.

        Parameters
        ----------
        fault
            Class of the fault, one of :data:`ettrick.sim.policies.contracts.FAULTS`.
        kind
            Kind of its effect: what it does to its nodes.
        """
        race = self.unscaled(fault, kind)
        return race.scaled(self.scale) if race is not None else None


class Latency(Detection):
    """The job knows of a failure after a time drawn from one law; until then its GPUs wait.

    Slow, degraded and wrongly computing nodes go on until they are noticed, which without a law they never are.
    """

    use: Literal["latency"] = "latency"
    time: Law = default("0 s", description="From a failure to the moment when the job knows.")
    hang: Law | None = Field(None, description="The same for a hang; without it, as for others.")
    slow: Law | None = Field(
        None, description="From a node becoming slow to somebody taking it out; without it, never."
    )
    degrade: Law | None = Field(None, description="The same for a node that lost bandwidth.")
    corrupt: Law | None = Field(None, description="The same for a node that computes wrongly.")
    spike: Law | None = Field(None, description="The same for a loss that has left its course.")

    def unscaled(self, fault: str, kind: str) -> DetectionRace | None:
        """Return who notices, by the kind of the fault's effect."""
        law: LawModel | None = self.time if kind == "crash" else getattr(self, kind)
        if kind == "hang" and law is None:
            law = self.time
        return DetectionRace.by(law) if law is not None else None


AnyWatcher: TypeAlias = (
    InBand | NodeAgent | Heartbeat | CollectiveTimeout | Slurm | Kubernetes | Nvrx | Straggler | SdcCheck
)


class Human(Model):
    """Somebody who looks after the job now and then. A job that stands still is always noticed in the end.

    A median of 15 min with 4 h at the 95th percentile is an assumption, and so are 8 h with 5 d for what only shows in
    results; sigma = ln(p95 / median) / 1.645.
    """

    latency: Law = default(
        {"use": "lognormal", "median": "15 min", "sigma": 1.685},
        description="Time until a job that stands still, or a loss that has left its course, is noticed. The default "
        "is an assumption: median 15 min, 95 % within 4 h.",
    )
    silent: Law = default(
        {"use": "lognormal", "median": "8 h", "sigma": 1.646},
        description="Time until a node that is slow or computes wrongly is found; 100 year stands for never. The "
        "default is an assumption: median 8 h, 95 % within 5 d.",
    )


class Observers(Detection):
    """Observers watch nodes and jobs, each for some classes of faults; the earliest that covers a fault notices it.

    What none of them covers waits for an operator. Slow nodes, wrong results and loss spikes do not stop the job: only
    who covers these classes sees them.
    """

    use: Literal["observers"] = "observers"
    observers: tuple[Annotated[AnyWatcher, OneOf("use", "observers", get_args(AnyWatcher))], ...] = Field(
        (),
        description="Observers, each kind once. Values stated by class (covers, latency) replace the default of "
        "that class only.",
    )
    human: Human = Field(default_factory=Human, description="Operator, who notices faults that no observer covers.")

    @field_validator("observers")
    @classmethod
    def _each_once(cls, observers: tuple[AnyWatcher, ...]) -> tuple[AnyWatcher, ...]:
        names = [watcher.use for watcher in observers]
        for place, name in enumerate(names):
            if name in names[:place]:
                raise RuleError((place,), f"'{name}' is there twice; each kind of observer watches once")
        return observers

    def unscaled(self, fault: str, kind: str) -> DetectionRace:
        """Return who notices faults of a class whose effect is of some `kind`."""
        if fault == "planned":
            return DetectionRace.by(Fixed.from_seconds(value=0.0))
        seen = (watcher.sees(fault, kind) for watcher in self.observers)
        watching = tuple(observer for observer in seen if observer is not None)
        human = self.human.silent if SILENT.get(kind) in ("slow", "corrupt") else self.human.latency
        return DetectionRace(watching, human)

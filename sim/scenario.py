"""What a user may describe: frozen models with SI floats inside and text with units outside.

The strategy fields are typed :class:`sim.fields.Strategy` here; ``sim.load`` narrows each to the union of its
registry, so that this layer does not know which strategies exist.
"""

from __future__ import annotations

from bisect import bisect
from math import isqrt
from typing import Annotated, Any, Literal, Self, TypeAlias, get_args

from pydantic import Discriminator, Field, SerializeAsAny, Tag, model_validator

from sim.fields import Count, Duration, Fraction, Model, RuleError, Strategy

__all__ = ["Batch", "GroupKind", "JobSpec", "Parallelism", "Scenario", "Spares", "StandbyNodes", "Work"]


class Batch(Model):
    """The global batch of one step."""

    tokens: Count = Field(description="Tokens in one step of the whole job.", gt=0)
    sequence: Count = Field(description="Tokens in one sequence.", gt=0)
    on_loss: Literal["shrink", "keep"] = Field(
        "shrink",
        description="What a missing replica does: shrink trains fewer tokens a step; keep gives its share to the "
        "others, which take longer.",
    )

    @model_validator(mode="after")
    def _whole_sequences(self) -> Self:
        if self.tokens % self.sequence:
            message = f"{self.tokens} tokens are not a whole number of sequences of {self.sequence} tokens"
            raise RuleError(("tokens",), message)
        return self


GroupKind: TypeAlias = Literal["tensor", "context", "expert", "data", "pipeline"]


class Parallelism(Model):
    """How the model is laid out: gpus = tensor x context x pipeline x data."""

    tensor: int = Field(1, ge=1, description="GPUs that share each layer.")
    context: int = Field(1, ge=1, description="GPUs that share each sequence.")
    pipeline: int = Field(1, ge=1, description="Pipeline stages.")
    data: int = Field(1, ge=1, description="Data-parallel replicas.")
    expert: int = Field(
        1, ge=1, description="GPUs that share the experts of each layer: GPUs of data, or of data and context."
    )
    order: tuple[GroupKind, ...] = Field(
        ("tensor", "context", "expert", "data", "pipeline"),
        description="From the fastest-varying rank to the slowest; neighbours in rank are neighbours in the cluster.",
    )
    within_domain: tuple[GroupKind, ...] = Field(
        (), description="Kinds of groups that must fit into a scale-up domain; others may be cut, with a warning."
    )

    @property
    def gpus(self) -> int:
        """Number of GPUs of this layout."""
        return self.tensor * self.context * self.pipeline * self.data

    @property
    def expert_covers_context(self) -> bool:
        """Whether the GPUs of an expert group take in those of a context group."""
        return self.data % self.expert != 0

    @model_validator(mode="after")
    def _experts_divide(self) -> Self:
        whole, rest = divmod(self.expert, self.context)
        if self.expert_covers_context and (rest or self.data % whole):
            small = [part for part in range(1, isqrt(self.data) + 1) if self.data % part == 0]
            parts = {*small, *(self.data // part for part in small)}
            valid = sorted(parts | {self.context * part for part in parts})
            place = bisect(valid, self.expert)
            near = " or ".join(str(size) for size in valid[place - 1 : place + 1])
            wider = f", nor are they context {self.context} times a divisor of it" if self.context > 1 else ""
            message = f"{self.expert} GPUs do not divide data {self.data}{wider}; nearest: {near}"
            raise RuleError(("expert",), message)
        return self

    @model_validator(mode="after")
    def _order_is_whole(self) -> Self:
        kinds = get_args(GroupKind)
        if sorted(self.order) != sorted(kinds):
            near = [*dict.fromkeys(self.order), *(kind for kind in kinds if kind not in self.order)]
            message = f"must name each of {', '.join(kinds)} once; for example [{', '.join(near)}]"
            raise RuleError(("order",), message)
        return self


class Work(Model):
    """A fixed amount of work: exactly one of the three."""

    tokens: Count | None = Field(None, description="Tokens to train on.")
    steps: Count | None = Field(None, description="Optimizer steps.")
    time: Duration | None = Field(None, description="Time that it takes without any loss.")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [name for name in ("tokens", "steps", "time") if getattr(self, name)]
        if len(given) != 1:
            message = f"give exactly one of tokens, steps and time, above zero (given: {', '.join(given) or 'none'})"
            raise ValueError(message)
        return self


def _kind_of_work(value: object) -> str:
    """Tell which of the two a value is meant to be, so that it is judged as that one alone."""
    return "a word" if isinstance(value, str) else "an amount"


AnyWork: TypeAlias = Annotated[
    Annotated[Literal["horizon"], Tag("a word")] | Annotated[Work, Tag("an amount")], Discriminator(_kind_of_work)
]


class JobSpec(Model):
    """One training job."""

    name: str = Field(min_length=1, description="Name of the job; unique in the scenario.")
    gpus: Count = Field(gt=0, description="GPUs that the job asks for; a whole number of nodes.")
    model: str | None = Field(None, description="Model of the catalog; gives the FLOP of a step.")
    step_time: Duration | None = Field(None, description="Measured time of a healthy step.")
    mfu: Fraction | None = Field(None, description="Published model FLOP utilisation; gives the time of a step.")
    batch: Batch | None = Field(None, description="The global batch; needed for tokens and steps.")
    parallelism: Parallelism | None = Field(None, description="Layout; its product must be the number of GPUs.")
    precision: Literal["bf16", "fp8"] = Field("bf16", description="Arithmetic of the matrix products.")
    communication: Fraction = Field(
        0.0,
        description="Share of a healthy step that waits for communication between nodes; lost bandwidth stretches it.",
    )
    arrival: Duration = Field("0 s", description="When the job enters the queue.")  # type: ignore[assignment]
    deadline: Duration | None = Field(None, description="For p_finish_by: time from arrival to finish.")
    work: AnyWork = Field("horizon", description="A fixed amount, or as much as the horizon holds.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        layout = self.parallelism
        if layout is not None and layout.gpus != self.gpus:
            message = (
                f"multiplies to {layout.gpus} GPUs (tensor {layout.tensor} x context {layout.context} x "
                f"pipeline {layout.pipeline} x data {layout.data}), but the job asks for {self.gpus}"
            )
            raise RuleError(("parallelism",), message)
        if self.step_time is not None and self.mfu is not None:
            message = "give step_time or mfu, not both: each follows from the other"
            raise RuleError(("mfu",), message)
        if self.mfu is not None and (self.model is None or self.batch is None):
            lacking = " and ".join(name for name in ("model", "batch") if getattr(self, name) is None)
            message = f"needs model and batch: the time of a step follows from their FLOP (missing: {lacking})"
            raise RuleError(("mfu",), message)
        if isinstance(self.work, Work):
            if self.work.tokens is not None and self.batch is None:
                message = "work in tokens needs batch: it tells the tokens of a step"
                raise RuleError(("work", "tokens"), message)
            if self.work.time is None and self.step_time is None and self.mfu is None:
                message = "work in tokens or steps needs step_time or mfu: they tell the time of a step"
                raise RuleError(("work",), message)
        elif self.deadline is not None:
            message = "needs a fixed amount of work, for example work: {time: 20 d}; with work: horizon no job finishes"
            raise RuleError(("deadline",), message)
        return self


class StandbyNodes(Model):
    """Nodes outside the allocation that take a while to be of use."""

    nodes: Count = Field(gt=0, description="How many.")
    delay: Duration = Field(description="From being asked for to being ready.")
    one_by_one: bool = Field(False, description="Whether several are got ready one after another, or all at once.")
    refills: bool = Field(True, description="Whether nodes that come back from repair fill it up again.")


class Spares(Model):
    """Nodes kept ready for jobs that lose one; all jobs share them. Nodes that come back fill them in this order."""

    hot: Count = Field(0, description="Healthy nodes in the allocation, of use at once.")
    warm: StandbyNodes | None = Field(None, description="Nodes that are powered, but outside the allocation.")
    cold: StandbyNodes | None = Field(None, description="Nodes that must be provisioned, or freed of other work.")
    unit: str | None = Field(
        None, description="Part that jobs use whole, such as rack: when one of its nodes is out, all are."
    )

    @property
    def total(self) -> int:
        """Nodes that are held back."""
        return self.hot + sum(standby.nodes for standby in (self.warm, self.cold) if standby is not None)


class Scenario(Model):
    """A cluster, its jobs, what fails, and what is done about it."""

    name: str = Field(min_length=1, description="Name of the scenario.")
    description: str = Field("", description="One or two sentences: the question that it answers.")
    cluster: SerializeAsAny[Model] = Field(description="The cluster: a file of topologies/, or its parameters.")
    horizon: Duration = Field(gt=0, description="Time that is simulated after the warm-up.")
    warmup: Duration = Field("0 s", description="Time that the cluster runs before the jobs' time zero.")  # type: ignore[assignment]
    initial: Literal["new", "stationary"] = Field(
        "new", description="Ages of the parts at the start: all new, or as after a long time (repairs in progress too)."
    )
    windows: Duration | None = Field(None, description="Width of the windows of the rolling view.")
    seed: int = Field(1, ge=0, lt=2**63, description="Seed of all random numbers.")
    jobs: tuple[JobSpec, ...] = Field(min_length=1, description="The jobs, in order of submission.")
    failures: tuple[SerializeAsAny[Strategy], ...] = Field((), description="Failure sources.")
    checkpoint: SerializeAsAny[Strategy] = Field(description="How progress is made durable.")
    detection: SerializeAsAny[Strategy] = Field(description="When the job knows of a failure.")
    recovery: SerializeAsAny[Strategy] = Field(description="How a job comes back.")
    spares: Spares = Field(default_factory=lambda: Spares.model_validate({}), description="Nodes kept ready.")
    repair: SerializeAsAny[Strategy] = Field(description="How nodes come back.")
    scheduler: SerializeAsAny[Strategy] = Field(description="How queued jobs get nodes.")
    assumptions: tuple[str, ...] = Field((), description="What this file assumes and why; printed with every result.")

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        first: dict[str, int] = {}
        for index, job in enumerate(self.jobs):
            if job.name in first:
                message = f"'{job.name}' is also the name of jobs.{first[job.name]}; results are told apart by name"
                raise RuleError(("jobs", index, "name"), message)
            first[job.name] = index
        return self

    def dump(self) -> dict[str, Any]:
        """Return plain data that ``sim.load`` reads back to an equal scenario."""
        return self.model_dump(mode="json", exclude_none=True)

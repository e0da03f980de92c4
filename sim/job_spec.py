"""What a user may describe of a training job: model, batch, layout, execution of a step, and amount of work."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Discriminator, Field, Tag, model_validator

from sim.fields import Count, Duration, Fraction, Model, RuleError
from sim.model_spec import ModelSpec
from sim.perf.hardware import Precision
from sim.perf.ranks import ORDER, GroupKind, expert_sizes, experts_cover_context, near
from sim.perf.workload import Recompute, Schedule, Sharding
from sim.periodic_spec import PeriodicWork

__all__ = ["Batch", "Calibration", "Execution", "JobSpec", "Parallelism", "Work"]


_MOST = 10**7
"""Ranks of a group at most; more are a slip of the pen."""


class Batch(Model):
    """The global batch of one step."""

    tokens: Count = Field(description="Tokens in one step of the whole job.", gt=0, le=10**12)
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


class Parallelism(Model):
    """How the model is laid out: gpus = tensor x context x pipeline x data."""

    tensor: int = Field(1, ge=1, le=_MOST, description="GPUs that share each layer.")
    context: int = Field(1, ge=1, le=_MOST, description="GPUs that share each sequence.")
    pipeline: int = Field(1, ge=1, le=_MOST, description="Pipeline stages.")
    data: int = Field(1, ge=1, le=_MOST, description="Data-parallel replicas.")
    expert: int = Field(
        1,
        ge=1,
        le=_MOST,
        description="GPUs that share the experts of each layer: GPUs of data, or of data and context.",
    )
    order: tuple[GroupKind, ...] = Field(
        ORDER,
        description="From the fastest-varying rank to the slowest; neighbours in rank are neighbours in the cluster.",
    )
    virtual_pipeline: int = Field(
        1,
        ge=1,
        le=_MOST,
        description="Pieces of the model that each pipeline stage holds; above 1 they are interleaved.",
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
        return experts_cover_context(self.data, self.expert)

    @model_validator(mode="after")
    def _experts_divide(self) -> Self:
        valid = expert_sizes(self.data, self.context)
        if self.expert not in valid:
            wider = f", nor are they context {self.context} times a divisor of it" if self.context > 1 else ""
            message = f"{self.expert} GPUs do not divide data {self.data}{wider}; nearest: {near(valid, self.expert)}"
            raise RuleError(("expert",), message)
        return self

    @model_validator(mode="after")
    def _order_is_whole(self) -> Self:
        if sorted(self.order) != sorted(ORDER):
            whole = [*dict.fromkeys(self.order), *(kind for kind in ORDER if kind not in self.order)]
            message = f"must name each of {', '.join(ORDER)} once; for example [{', '.join(whole)}]"
            raise RuleError(("order",), message)
        return self


class Execution(Model):
    """How a step is executed; it matters where the model of steps gives its time."""

    microbatch: Count = Field(1, gt=0, description="Sequences that a replica works on at once.")
    schedule: Schedule = Field("1f1b", description="Order of the pipeline's passes; 1f1b interleaves virtual stages.")
    recompute: Recompute = Field(
        "none", description="What the backward pass computes again: nothing, the core of attention, or whole layers."
    )
    sharding: Sharding = Field(
        "optimizer",
        description="What replicas divide among them: nothing, the optimizer's state (ZeRO-1), or parameters and "
        "gradients too (FSDP, ZeRO-3).",
    )
    shard_ranks: Count | None = Field(
        None, gt=0, description="Ranks that parameters are divided among (hybrid sharding); without it, all replicas'."
    )
    sequence_parallel: bool = Field(
        True, description="Whether tensor ranks also divide what lies between the matrix products."
    )
    fused_attention: bool = Field(
        True, description="Whether attention keeps no scores in memory and skips the masked half."
    )
    overlap_tensor: bool = Field(True, description="Whether the traffic of tensor ranks runs beside computing.")
    overlap_data: bool = Field(True, description="Whether the traffic of replicas runs beside computing.")
    overlap_expert: bool = Field(
        False, description="Whether tokens travel to experts and back while another microbatch computes (DualPipe)."
    )

    @model_validator(mode="after")
    def _ranks_are_for_parameters(self) -> Self:
        if self.shard_ranks is not None and self.sharding != "parameters":
            message = f"is for sharding: parameters; with sharding: {self.sharding} all replicas divide the state"
            raise RuleError(("shard_ranks",), message)
        return self


class Calibration(Model):
    """A measured step of the same model on the same hardware; what is left out is as in the job."""

    step_time: Duration = Field(gt=0, description="What was measured.")
    batch: Batch | None = Field(None, description="The global batch that was measured.")
    parallelism: Parallelism | None = Field(None, description="The layout that was measured; tells the GPUs too.")
    execution: Execution | None = Field(None, description="How the measured step was executed.")


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


def _kind_of_model(value: object) -> str:
    """Tell a name of the catalog from a shape."""
    return "a name" if isinstance(value, str) else "a shape"


AnyModel: TypeAlias = Annotated[
    Annotated[str, Tag("a name")] | Annotated[ModelSpec, Tag("a shape")], Discriminator(_kind_of_model)
]


class JobSpec(Model):
    """One training job."""

    name: str = Field(min_length=1, description="Name of the job; unique in the scenario.")
    gpus: Count = Field(gt=0, description="GPUs that the job asks for; a whole number of nodes.")
    model: AnyModel | None = Field(None, description="A model of the catalog, or its shape; gives the FLOP of a step.")
    step_time: Duration | None = Field(
        None, description="Measured time of a healthy step; without it the model of steps gives it."
    )
    mfu: Fraction | None = Field(None, description="Published model FLOP utilisation; gives the time of a step.")
    calibration: Calibration | None = Field(
        None, description="A measured step of this model and cluster; scales what the model of steps says."
    )
    batch: Batch | None = Field(None, description="The global batch; needed for tokens and steps.")
    parallelism: Parallelism | None = Field(None, description="Layout; its product must be the number of GPUs.")
    execution: Execution = Field(
        default_factory=lambda: Execution.model_validate({}), description="How a step is executed."
    )
    precision: Precision = Field("bf16", description="Arithmetic of the matrix products.")
    communication: Fraction | None = Field(
        None,
        description="Share of a healthy step that waits for communication between nodes; lost bandwidth stretches it. "
        "Without it the model of steps tells, and where there is none, nothing waits.",
    )
    periodic: tuple[PeriodicWork, ...] = Field(
        (), description="Blocking work that comes again and again: evaluation, checks for corruption, loading of data."
    )
    arrival: Duration = Field("0 s", description="When the job enters the queue.")  # type: ignore[assignment]
    deadline: Duration | None = Field(None, description="For p_finish_by: time from arrival to finish.")
    work: AnyWork = Field("horizon", description="A fixed amount, or as much as the horizon holds.")

    @property
    def may_wait(self) -> bool:
        """Whether less bandwidth may slow it: as it states, or as the model of steps will tell."""
        return self.communication > 0 if self.communication is not None else not self.lacks

    @property
    def lacks(self) -> str:
        """What the model of steps would have to know and is not told, in words; empty where it knows all."""
        missing = [name for name in ("model", "batch", "parallelism") if getattr(self, name) is None]
        return " and ".join(missing)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        layout = self.parallelism
        if layout is not None and layout.gpus != self.gpus:
            message = (
                f"multiplies to {layout.gpus} GPUs (tensor {layout.tensor} x context {layout.context} x "
                f"pipeline {layout.pipeline} x data {layout.data}), but the job asks for {self.gpus}"
            )
            raise RuleError(("parallelism",), message)
        names = [work.name for work in self.periodic]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise RuleError(("periodic", index, "name"), f"'{name}' is also the name of an earlier one")
        if self.step_time is not None and self.mfu is not None:
            message = "give step_time or mfu, not both: each follows from the other"
            raise RuleError(("mfu",), message)
        if self.mfu is not None and (self.model is None or self.batch is None):
            lacking = " and ".join(name for name in ("model", "batch") if getattr(self, name) is None)
            message = f"needs model and batch: the time of a step follows from their FLOP (missing: {lacking})"
            raise RuleError(("mfu",), message)
        if self.calibration is not None and (self.step_time is not None or self.mfu is not None):
            message = "give calibration or a measured step of this very job (step_time, mfu), not both"
            raise RuleError(("calibration",), message)
        if self.calibration is not None and self.lacks:
            message = f"scales what the model of steps says, and that lacks {self.lacks}"
            raise RuleError(("calibration",), message)
        if isinstance(self.work, Work):
            if self.work.tokens is not None and self.batch is None:
                message = "work in tokens needs batch: it tells the tokens of a step"
                raise RuleError(("work", "tokens"), message)
            if self.work.time is None and self.step_time is None and self.mfu is None and self.lacks:
                message = (
                    "work in tokens or steps needs the time of a step: give step_time, mfu, or a model with batch and "
                    f"parallelism (missing: {self.lacks})"
                )
                raise RuleError(("work",), message)
        elif self.deadline is not None:
            message = "needs a fixed amount of work, for example work: {time: 20 d}; with work: horizon no job finishes"
            raise RuleError(("deadline",), message)
        return self

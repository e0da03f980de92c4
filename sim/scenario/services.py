"""What a user may describe of a service: replicas of a model, what is asked of them, and how they recover."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sim.scenario.fields import Bandwidth, Count, Duration, Fraction, Model, RuleError, rate_of_whole
from sim.scenario.model import AnyModel
from sim.steps.hardware import Precision

RequestRate = Annotated[float, *rate_of_whole("a rate of requests", "is of the whole service", "120 per s", "40 per h")]


class ServingLayout(Model):
    """Ranks of a replica; feed-forward parts and experts are shared by all tensor x data ranks of a stage."""

    tensor: Count = Field(1, gt=0, description="Ranks that share the attention of a sequence.")
    data: Count = Field(1, gt=0, description="Ranks with sequences of their own (data-parallel attention).")
    pipeline: Count = Field(1, gt=0, description="Stages.")

    @property
    def gpus(self) -> int:
        """GPUs of a replica [-]."""
        return self.tensor * self.data * self.pipeline


class Lengths(Model):
    """Tokens of a prompt, or of an answer: log-normal."""

    mean: float = Field(gt=0, le=1e7, description="Mean [tokens].")
    cv: float = Field(0.0, ge=0, le=100, description="Standard deviation over the mean; 0 for one length.")


class BatchLimits(Model):
    """Limits of the batches; what is left out is the engine's default."""

    sequences: Count | None = Field(None, gt=0, description="Sequences decoded together at most, of a data rank.")
    chunk: Count | None = Field(None, gt=0, description="Tokens of prompts that one step reads at most.")
    memory: Fraction | None = Field(None, gt=0, description="Share of the device memory that it uses.")
    longest: Count = Field(0, description="Tokens of the longest answer allowed; engines that reserve keep its room.")


class Demand(Model):
    """What is asked of the service: Poisson arrivals with laws of lengths, or a trace of requests."""

    use: Literal["poisson", "trace"] = Field("poisson", description="Where requests come from.")
    rate: RequestRate | None = Field(None, description="Requests per time of the whole service; not of a trace.")
    input: Lengths | None = Field(None, description="Prompts; not of a trace.")
    output: Lengths | None = Field(None, description="Answers; not of a trace.")
    file: str | None = Field(None, min_length=1, description="Trace as CSV: t_s, input_tokens, output_tokens.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = {"poisson": ("rate", "input", "output"), "trace": ("file",)}
        for use, names in ways.items():
            for name in names:
                if (getattr(self, name) is not None) != (use == self.use):
                    rule = "is missing" if use == self.use else "does not go"
                    raise RuleError((name,), f"{rule} with use: {self.use}, which takes {' and '.join(ways[self.use])}")
        return self


class Slo(Model):
    """Service level objective; a request meets it if its TTFT and its own mean TPOT do."""

    ttft: Duration = Field(gt=0, description="Time to the first token.")
    tpot: Duration = Field(gt=0, description="Mean time per token after the first.")
    attainment: Fraction = Field(0.99, gt=0, lt=1, description="Share of requests that have to meet it.")


class MeasuredPoint(Model):
    """A measured point of this replica; it scales all modelled times."""

    tpot: Duration = Field(gt=0, description="Mean time per token that was measured.")
    batch: float = Field(gt=0, le=1e6, description="Requests in flight of a replica while it was [-].")


class Reload(Model):
    """How a replica recovers on healthy nodes: weights are read, processes start."""

    bandwidth: Bandwidth = Field("5 GB/s", gt=0, description="At which a node reads weights.")  # type: ignore[assignment]
    start: Duration = Field("2 min", description="Processes, communicators, compilation and graphs.")  # type: ignore[assignment]


class ServiceSpec(Model):
    """Replicas of a model that answer requests."""

    name: str = Field(min_length=1, description="Name of the service; unique in the scenario.")
    model: AnyModel = Field(description="A model of the catalog, or its shape.")
    precision: Precision = Field("fp8", description="Of the weights.")
    kv: Literal["bf16", "fp8"] | None = Field(None, description="Of keys and values; the engine's default without it.")
    engine: str = Field("vllm", description="Serving engine of the catalog.")
    calibration: MeasuredPoint | None = Field(None, description="A measured point of this replica.")
    replicas: Count = Field(gt=0, description="How many.")
    parallelism: ServingLayout = Field(description="Ranks of a replica.")
    batch: BatchLimits = Field(
        default_factory=lambda: BatchLimits.model_validate({}), description="Limits of the batches."
    )
    hit: Fraction = Field(0.0, lt=1, description="Share of prompts that a prefix cache holds.")
    demand: Demand = Field(description="What is asked of it.")
    slo: Slo = Field(description="Service level objective.")
    overload: Literal["reject"] | None = Field(
        None, description="What happens to requests beyond capacity; without it demand must be below capacity."
    )
    recovery: Reload = Field(default_factory=lambda: Reload.model_validate({}), description="How a replica recovers.")

    def nodes(self, gpus_per_node: int) -> int:
        """Return the nodes that all replicas take; replicas below a node share one [-]."""
        return self.groups(gpus_per_node) * -(-self.parallelism.gpus // gpus_per_node)

    def groups(self, gpus_per_node: int) -> int:
        """Return the replicas, or nodes full of them, that fail as one [-]."""
        return -(-self.replicas // max(gpus_per_node // self.parallelism.gpus, 1))

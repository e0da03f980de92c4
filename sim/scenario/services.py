"""The description of a service: replicas of a model, its demand, and its recovery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from ettrick.sim.scenario.fields import (
    Bandwidth,
    Completed,
    Count,
    Duration,
    Fraction,
    Model,
    Profile,
    default,
    named,
    rate_of_whole,
)
from ettrick.sim.scenario.model import AnyModel
from ettrick.sim.steps.hardware import Precision

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

    from ettrick.sim.scenario.fields import BrokenRules

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
    admission: Literal["on-demand", "reserve"] | None = Field(
        None, description="Requests get in by the tokens that there are, or with room for the whole answer."
    )


class PromptPool(Model):
    """Replicas that read prompts, and hand keys and values to those that decode (disaggregated serving)."""

    replicas: Count = Field(gt=0, description="How many.")
    parallelism: ServingLayout = Field(description="Ranks of one.")


class Speculation(Model):
    """Tokens that are drafted, and verified together by one step (speculative decoding)."""

    tokens: Count = Field(gt=0, le=64, description="Of a draft.")
    accept: Fraction = Field(description="Probability that a drafted token is accepted, those before it accepted.")
    cost: Fraction = Field(0.05, description="Time to draft a token over that of a step.")


class Demand(Model):
    """The demand on the service: Poisson arrivals with laws of lengths, or a trace; replicas get them in turn."""

    use: Literal["poisson", "trace"] = Field("poisson", description="Where requests come from.")
    rate: RequestRate | None = Field(None, description="Requests per time of the whole service; not of a trace.")
    input: Lengths | None = Field(None, description="Prompts; not of a trace.")
    output: Lengths | None = Field(None, description="Answers; not of a trace.")
    file: str | None = Field(None, min_length=1, description="Trace as CSV: t_s, input_tokens, output_tokens.")
    profile: Profile | None = Field(None, description="How the rate varies over a day or a week; not of a trace.")
    growth: float = Field(0.0, gt=-1, le=100, description="Compound growth of the rate in a year, as a part of it [-].")

    def _broken_rules(self) -> BrokenRules:
        ways = {"poisson": ("rate", "input", "output"), "trace": ("file",)}
        for use, names in ways.items():
            for name in names:
                if (getattr(self, name) is not None) != (use == self.use):
                    rule = "is missing" if use == self.use else "does not go"
                    yield (name,), f"{rule} with use: {self.use}, which takes {' and '.join(ways[self.use])}"
        if self.profile is not None and self.use == "trace":
            yield ("profile",), "does not go with use: trace, which has rates of its own"

    @property
    def by_law(self) -> tuple[float, Lengths, Lengths]:
        """Rate [1/s], prompts and answers where they are no trace's."""
        if self.rate is None or self.input is None or self.output is None:
            raise ValueError("requests of a trace have no laws")
        return self.rate, self.input, self.output


class Slo(Model):
    """Service level objective; a request meets it if its TTFT and its own mean TPOT do."""

    ttft: Duration = Field(gt=0, description="Time to the first token.")
    tpot: Duration = Field(gt=0, description="Mean time per token after the first.")
    attainment: Fraction = Field(0.99, gt=0, lt=1, description="Share of requests that have to meet it.")


class MeasuredPoint(Model):
    """A measured point of this replica; it scales all modelled times."""

    tpot: Duration = Field(gt=0, description="Mean time per token that was measured.")
    batch: float = Field(gt=0, le=1e6, description="Requests in flight of a replica while it was [-].")


class Overload(Model):
    """The treatment of requests beyond capacity."""

    use: Literal["reject", "queue"] = Field("reject", description="They are turned away at once, or wait.")
    patience: Duration = default("30 s", gt=0, description="Of a queue: how long a client waits before it gives up.")
    retries: Count = Field(0, le=1000, description="Of a queue: how often a client that gave up asks again at once.")

    cancel: bool = Field(
        True,
        description="Of a queue: whether a request leaves it when its client gives up; else it is served too late to "
        "count.",
    )

    def _broken_rules(self) -> BrokenRules:
        for name in ("patience", "retries", "cancel"):
            if self.use != "queue" and name in self.model_fields_set:
                yield (name,), "is of clients that wait: needs use: queue"


class Failover(Model):
    """The fate of the requests in flight of a replica that failed."""

    use: Literal["fail", "retry", "migrate", "restore"] = Field(
        "fail",
        description="They fail; start again on other replicas; go on there after prompt and tokens so far are read "
        "again; or go on there with a copy of keys and values.",
    )


class Warm(Model):
    """A replica that has started is slower at first: its caches are empty."""

    time: Duration = default("0 s", description="How long.")
    speed: Fraction = Field(1.0, gt=0, description="Its capacity meanwhile, as a share.")


class ServiceRecovery(Model):
    """The recovery of a replica; presets of the catalog state its times."""

    use: Literal["reload", "shadow", "elastic-experts", "shrink-tensor"] = Field(
        "reload",
        description="The whole replica restarts; a standby process takes over where no node is lost; or what is left "
        "goes on: nodes, with shrink-tensor also GPUs of a node.",
    )
    source: Literal["store", "local", "host", "peer"] = Field("store", description="Where weights are read from.")
    bandwidth: Bandwidth | None = Field(
        None, gt=0, description="At which a node reads weights; without it, that of the source in the catalog."
    )
    start: Duration = default("2 min", description="Processes, communicators, compilation and graphs.")
    interruption: Duration | None = Field(
        None, description="Until a standby or the nodes that are left serve; without it, that of the catalog."
    )
    warm: Warm = Field(default_factory=lambda: Warm.model_validate({}), description="Slower after a start.")


class AutoScale(Model):
    """Replicas follow the demand; a new one has to start."""

    target: Fraction = Field(0.7, gt=0, description="Demand over the capacity of the replicas wanted.")
    min: Count = Field(1, gt=0, description="Fewest replicas.")
    max: Count = Field(gt=0, description="Most replicas.")
    window: Duration = default("60 s", description="After a change of demand, until the number is changed.")

    def _broken_rules(self) -> BrokenRules:
        if self.min > self.max:
            yield ("min",), f"is {self.min:,}, and max is {self.max:,}"


class Upgrade(Model):
    """Rolling upgrades: a few replicas at a time are emptied and restarted, until all have been."""

    every: Duration = Field(gt=0, description="Time between two upgrades.")
    batch: Count = Field(1, gt=0, description="Replicas that restart together.")


def _with_names(whole: JsonSchemaValue, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
    """Return the JSON Schema of a model with `use`, or of its name alone, for the model with nothing else stated."""
    return {"anyOf": [{"enum": handler.resolve_ref_schema(whole)["properties"]["use"]["enum"]}, whole]}


_OR_NAME = Completed(named, _with_names)


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
    prefill: PromptPool | None = Field(None, description="Replicas that read all prompts; the others then only decode.")
    speculate: Speculation | None = Field(None, description="Speculative decoding; none without it.")
    stream: bool = Field(
        True,
        description="Whether tokens are sent one by one; without it the host has no work for each sequence and step.",
    )
    hit: Fraction = Field(0.0, lt=1, description="Share of prompts that a prefix cache holds.")
    demand: Demand = Field(description="Load on the service.")
    slo: Slo = Field(description="Service level objective.")
    overload: Annotated[Overload, _OR_NAME] | None = Field(
        None,
        description="Treatment of requests beyond capacity: reject, or a queue; without it demand must be below "
        "capacity, and what failures leave no room for is turned away.",
    )
    failover: Annotated[Failover, _OR_NAME] = Field(
        default_factory=lambda: Failover.model_validate({}), description="Treatment of requests in flight."
    )
    recovery: ServiceRecovery = Field(
        default_factory=lambda: ServiceRecovery.model_validate({}), description="How a replica recovers."
    )
    scale: AutoScale | None = Field(None, description="Autoscaling; without it there are always as many replicas.")
    upgrade: Upgrade | None = Field(None, description="Rolling upgrades.")
    priority: int = Field(0, ge=-(10**6), le=10**6, description="Priority in the queue; higher goes first.")
    tenant: str | None = Field(None, min_length=1, description="Whose it is.")
    partition: str | None = Field(None, min_length=1, description="Where it queues; the first one by default.")

    def _broken_rules(self) -> BrokenRules:
        if self.prefill is not None and self.scale is not None:
            yield ("scale",), "does not go with prefill: two pools would have to follow the demand"

    def nodes(self, gpus_per_node: int) -> int:
        """Return the nodes that all replicas take, the most where they are scaled; below a node they share one [-]."""
        most = self.replicas if self.scale is None else max(self.replicas, self.scale.max)
        nodes = -(-most // self.together(gpus_per_node)) * -(-self.parallelism.gpus // gpus_per_node)
        if self.prefill is not None:
            nodes += -(-self.prefill.replicas * self.prefill.parallelism.gpus // gpus_per_node)
        return nodes

    @property
    def in_turn(self) -> int:
        """Replicas that get requests in turn: where they are scaled, the most [-]."""
        return self.replicas if self.scale is None else self.scale.max

    def together(self, gpus_per_node: int) -> int:
        """Return the replicas of a node, which fail as one; 1 where a replica takes nodes of its own [-]."""
        return max(gpus_per_node // self.parallelism.gpus, 1)

    def groups(self, gpus_per_node: int) -> int:
        """Return the replicas, or nodes full of them, that fail as one [-]."""
        return -(-self.replicas // self.together(gpus_per_node))

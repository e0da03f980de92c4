"""The description of a training job: model, batch, layout, execution of a step, and amount of work."""

# Annotations are not postponed: pydantic would compile each at the start.
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema

from ettrick.sim import units
from ettrick.sim.scenario.fields import (
    Bandwidth,
    Count,
    Duration,
    Flops,
    Fraction,
    Model,
    Power,
    Profile,
    Size,
    default,
)
from ettrick.sim.steps.hardware import Precision
from ettrick.sim.steps.shape import Experts, LatentAttention, ModelShape, StateSpace
from ettrick.sim.steps.workload import (
    ORDER,
    GroupKind,
    Loss,
    Module,
    Schedule,
    Sharding,
    State,
    expert_covers,
    expert_sizes,
    near,
    near_divisors,
    undivided_experts,
)

if TYPE_CHECKING:
    from ettrick.sim.scenario.fields import BrokenRules
    from ettrick.sim.steps.hardware import Accelerator
    from ettrick.sim.yamlfile import Table

# What a user may say of a model that is not in the catalog.


class ExpertsSpec(Model):
    """Layers in which each token meets a few of many experts."""

    count: Count = Field(gt=0, le=10**6, description="Experts of a layer.")
    active: Count = Field(gt=0, description="Experts that a token is sent to.")
    ffn: Count = Field(gt=0, description="Feed-forward width of one expert.")
    shared: Count = Field(0, description="Feed-forward width of the shared experts.")
    dense_layers: Count = Field(0, description="Layers without experts.")
    domains: Count = Field(0, description="Scale-up domains that a token is sent to at most; 0 for any.")
    latent: Count = Field(0, description="Width of a token as experts get it; 0 for that of the hidden state.")


class LatentSpec(Model):
    """Multi-head latent attention (MLA): low-rank keys and values."""

    query_rank: Count = Field(gt=0, description="Rank of the low-rank queries.")
    kv_rank: Count = Field(gt=0, description="Rank of the low-rank keys and values.")
    head: Count = Field(gt=0, description="Width of a head's queries and keys without position.")
    rotary: Count = Field(gt=0, description="Width of a head's queries and keys with rotary position.")
    value: Count = Field(gt=0, description="Width of a head's values.")


class StateSpaceSpec(Model):
    """State spaces (Mamba-2) or gated DeltaNet, instead of attention in the recurrent layers."""

    inner: Count = Field(gt=0, description="Width inside, over all heads.")
    state: Count = Field(gt=0, description="Numbers that each of these channels keeps of a sequence.")
    groups: Count = Field(1, gt=0, description="Groups of channels that share what is written and read: heads of keys.")
    heads: Count = Field(gt=0, description="Heads; those of values in DeltaNet.")
    per_head: Count = Field(1, description="Numbers of a token for each head: a step size; 2 in gated DeltaNet.")


class ModelSpec(Model):
    """The shape of a decoder-only transformer."""

    layers: Count = Field(gt=0, le=100_000, description="Layers.")
    hidden: Count = Field(gt=0, description="Width of the hidden state.")
    ffn: Count = Field(description="Feed-forward width of layers without experts; 0 where they have no such part.")
    heads: Count = Field(gt=0, le=10**6, description="Attention heads.")
    kv_heads: Count | None = Field(None, gt=0, description="Key-value heads (GQA); without it, one for each head.")
    vocabulary: Count = Field(gt=0, description="Entries of the vocabulary, as padded.")
    gated: bool = Field(True, description="Whether the feed-forward part has a gate: three matrices instead of two.")
    tied: bool = Field(False, description="Whether input and output share one table of embeddings.")
    head: Count | None = Field(None, gt=0, description="Width of a head; without it, hidden / heads.")
    experts: ExpertsSpec | None = Field(None, description="Mixture of experts.")
    latent: LatentSpec | None = Field(None, description="Latent attention.")
    window: Count = Field(0, description="Tokens that layers with sliding-window attention look back on.")
    windowed: Count = Field(0, description="Layers with sliding-window attention.")
    recurrent: Count = Field(0, description="Layers with linear attention, which keep a state instead of all tokens.")
    state: Count = Field(0, description="Numbers that such a layer keeps of a sequence.")
    mixer: StateSpaceSpec | None = Field(
        None, description="Kind of the recurrent layers [default: as wide as attention]."
    )
    output_gate: bool = Field(False, description="Whether a gate as wide as all heads multiplies attention's output.")
    depths: Count = Field(0, description="Multi-token prediction (MTP) heads.")

    def _broken_rules(self) -> "BrokenRules":
        yield from self._broken_attention()
        if not self.ffn and self.experts is None and self.mixer is None:
            yield ("ffn",), "is 0, which only suits layers next to experts or state spaces; give the width"
        if bool(self.window) != bool(self.windowed):
            yield ("window",), "window and windowed, its tokens and how many layers have it, go together"
        experts = self.experts
        if experts is not None and experts.active > experts.count:
            yield ("experts", "active"), f"a token meets {experts.active} of {experts.count} experts"
        if experts is not None and experts.dense_layers >= self.layers:
            rule = f"{experts.dense_layers} layers without experts leave none of {self.layers} layers to have them"
            yield ("experts", "dense_layers"), rule

    def _broken_attention(self) -> "BrokenRules":
        """Yield what does not go together in attention, and in what stands in its place."""
        if self.heads % (self.kv_heads or self.heads):
            yield ("kv_heads",), f"{self.heads} heads do not share {self.kv_heads} of keys and values evenly"
        if self.head is None and self.latent is None and self.hidden % self.heads:
            yield ("hidden",), f"{self.hidden} is not a whole number of {self.heads} heads; give the width of a head"
        if self.windowed + self.recurrent > self.layers:
            both = f"{self.windowed} windowed and {self.recurrent} recurrent"
            yield ("windowed",), f"{both} layers are more than the {self.layers} of the model"
        if self.mixer is not None and (not self.recurrent or self.latent is not None):
            yield ("mixer",), "is of recurrent layers, in addition to attention with keys and values of its own"
        if self.output_gate and self.latent is not None:
            yield ("output_gate",), "is of attention with keys and values of its own, not of latent attention"

    def shape(self) -> ModelShape:
        """Return it as the step-time model takes it."""
        values = self.model_dump() | {"kv_heads": self.kv_heads or self.heads, "head": self.head or 0}
        for name, part in (("experts", Experts), ("latent", LatentAttention), ("mixer", StateSpace)):
            values[name] = None if values[name] is None else part(**values[name])
        return ModelShape(**values, title="a model that the scenario describes", source="the scenario")


# What a user may say of an accelerator that the catalog does not have: what differs from one that it has.


class AcceleratorSpec(Model):
    """An accelerator that is like one of the catalog, but for what is said here."""

    like: str = Field(description="Name in the catalog of accelerators.")
    peak: dict[Precision, Annotated[Flops, Field(gt=0)]] = Field(
        default_factory=dict, description="Dense peak by precision; others stay."
    )
    memory: Size | None = Field(None, gt=0, description="Device memory.")
    memory_bandwidth: Bandwidth | None = Field(None, gt=0, description="Bandwidth of the device memory.")
    scale_up: Bandwidth | None = Field(None, gt=0, description="Bandwidth of its scale-up links, one direction.")
    power: Power | None = Field(
        None,
        gt=0,
        description="Power of its board; less than that of the one it is like is a cap (`nvidia-smi -pl`): a node in "
        "training draws the difference less, and jobs and services are slower.",
    )

    def __str__(self) -> str:
        """Return what it is called in tables."""
        return f"{self.like} (changed)"

    def changed(self, base: "Accelerator") -> "Accelerator":
        """Return the accelerator; it reaches the shares of its peaks that the one it is like does."""
        values: Table = {
            name: getattr(self, name)
            for name in ("memory", "memory_bandwidth", "scale_up", "power")
            if getattr(self, name) is not None
        }
        if self.power is not None and base.power is not None and self.power < base.power:
            values["cap"] = values.pop("power")
        faster = bool(self.peak or values.keys() - {"memory", "power", "cap"})
        node = base.node
        if node is not None and self.power is not None and base.power is not None:
            more = node.gpus * (self.power - base.power)
            node = replace(node, training=max(node.training + more, node.idle), measured=False)
        if node is not None and faster:
            node = replace(node, measured=False, source=f"as of the {base.title}: {node.source}")
        return replace(
            base,
            node=node,
            title=f"{base.title}, changed",
            peak=dict(base.peak) | dict(self.peak.items()),
            matmul={name: rate for name, rate in base.matmul.items() if name not in self.peak},
            announced=base.announced or faster,
            **values,
        )


def _form(value: object) -> str:
    """Return whether a value is a word (a name of the catalog, horizon) or a description, and judged as that alone."""
    return "word" if isinstance(value, str) else "description"


AnyAccelerator: TypeAlias = Annotated[
    Annotated[str, Tag("word")] | Annotated[AcceleratorSpec, Tag("description")], Discriminator(_form)
]


# What a user may say of the power and the price of a cluster.

Money = Annotated[float, Field(ge=0, le=1e15)]
"""An amount in the currency of the cost section."""

_OWNED = ("capex", "years", "energy", "storage", "repair", "labour")
"""Keys that say what owning costs."""


class Curtailment(Model):
    """A period during which the facility may draw less power."""

    start: Duration = Field(description="Start of the first period, from the start of the simulation.")
    time: Duration = Field(gt=0, description="Length of a period.")
    cap: Power = Field(gt=0, description="Facility power limit during the period.")
    every: Duration | None = Field(None, gt=0, description="Time from one start to the next. [default: only once]")

    def _broken_rules(self) -> "BrokenRules":
        if self.every is not None and self.time >= self.every:
            yield ("time",), "must be shorter than every, or it never ends; for a lasting cap give power.cap"


class Ambient(Model):
    """Ambient temperature: above a threshold, the GPUs lower their clocks."""

    temperature: float = Field(gt=-60, lt=80, description="Mean temperature [°C].")
    day: Profile | None = Field(None, description="Factors over a day.")
    season: Profile | None = Field(None, description="Factors over a year, multiplied by those of the day.")
    above: float = Field(25.0, gt=-60, lt=80, description="Temperature up to which clocks are full [°C]; assumed.")
    slope: Fraction = default(
        "0.2 %",
        description="Pace lost per degree above it; assumed: a day that is 5 to 10 degrees too hot costs 1 to 2 %.",
    )

    def _broken_rules(self) -> "BrokenRules":
        hottest = self.temperature
        for profile in (self.day, self.season):
            hottest *= max(profile.factors) if profile is not None else 1.0
        if self.slope * (hottest - self.above) >= 1:
            yield ("slope",), f"leaves no pace at {hottest:.3g} °C; at most {100 / (hottest - self.above):.3g} %"


class Carbon(Model):
    """Carbon emissions of a kWh from the grid."""

    intensity: float = Field(ge=0, le=1e5, description="Mean carbon intensity [g of CO2 for a kWh].")
    profile: Profile | None = Field(None, description="Factors of the intensity, for example hour by hour.")


class PowerSpec(Model):
    """The power of the cluster and its limits; values that are not stated come from the catalog of accelerators."""

    pue: float = Field(1.2, ge=1, le=10, description="Power usage effectiveness (PUE): facility power over IT power.")
    switch: Power = default("690 W", le=1e9, description="Power of one fabric switch.")
    storage: Power = default("0 W", le=1e12, description="Power of all storage.")
    idle: Power | None = Field(None, description="Power of an idle node. [default: from the catalog]")
    training: Power | None = Field(None, description="Power of a node in training. [default: from the catalog]")
    cap: Power | None = Field(None, gt=0, description="Facility power limit: clocks are lowered to stay below it.")
    rack_cap: Power | None = Field(None, gt=0, description="Power limit of the nodes in a rack.")
    curtail: tuple[Curtailment, ...] = Field((), description="Periods during which the facility may draw less power.")
    exponent: float | None = Field(
        None,
        gt=0,
        le=3,
        description="Pace under a cap: the share of the power range from idle to training, raised to this exponent. "
        "[default: as measured on H100]",
    )
    ramp_per_minute: Power | None = Field(
        None, gt=0, description="Largest change of facility power per minute: starting jobs wait for it."
    )
    ambient: Ambient | None = Field(None, description="Ambient temperature.")
    carbon: Carbon | None = Field(None, description="Carbon emissions of a kWh.")

    def _broken_rules(self) -> "BrokenRules":
        if self.idle is not None and self.training is not None and self.idle > self.training:
            yield ("idle",), f"is {self.idle:g} W, but training takes only {self.training:g} W"


_OfServices = Literal["slo_attainment", "served_share", "capacity_availability"]
_OfJobs = Literal["ettr", "scheduling_goodput", "runtime_goodput"]

OF_SERVICES, OF_JOBS = get_args(_OfServices), get_args(_OfJobs)
"""The metrics of targets of a service, and of a job or a stream; the default first."""


class Credit(Model):
    """A tier of what is given back for a window."""

    below: Fraction = Field(gt=0, description="Windows with less than this.")
    share: Fraction = Field(gt=0, description="Part of the bill of such a window; of several tiers the largest.")


class Target(Model):
    """The target of a service, a job or a stream, window by window."""

    name: str = Field(min_length=1, description="Name of the target; unique in the scenario.")
    of: str | None = Field(
        None, min_length=1, description="Name of the service, job or stream; without it, the only one that there is."
    )
    metric: _OfServices | _OfJobs | None = Field(
        None, description="Metric that is promised [default: slo_attainment of a service, ettr of jobs]."
    )
    at_least: Fraction = Field(gt=0, lt=1, description="Value that a window has to reach.")
    window: Duration = Field(gt=0, description="Width of a window: 1 d, 30 d.")
    credits: tuple[Credit, ...] = Field((), description="Credits, by tier.")
    bill: Money | None = Field(None, description="Bill of a window, in the currency of the cost section.")

    def _broken_rules(self) -> "BrokenRules":
        if self.bill is not None and not self.credits:
            yield ("bill",), "is what credits are a part of: give credits"


class CostSpec(Model):
    """The cost of the cluster: rented by the GPU-hour, or owned."""

    currency: str = Field("USD", min_length=1, max_length=12, description="Currency of all prices, only a label.")
    gpu_hour: Money | None = Field(None, description="Rented: price of a GPU-hour, everything included.")
    capex: Money | None = Field(None, description="Owned: price of the cluster, per GPU.")
    years: float | None = Field(None, gt=0, le=1000, description="Owned: years over which the price is spread evenly.")
    energy: Money | None = Field(None, description="Owned: price of a kWh of facility energy.")
    energy_profile: Profile | None = Field(None, description="Owned: factors of that price, hour by hour.")
    storage: Money | None = Field(None, description="Owned: price of all storage per year.")
    repair: dict[str, Money] = Field(
        default_factory=dict, description="Owned: price of a repair, by part class: gpu, node, nic, leaf, ..."
    )
    labour: Money | None = Field(None, description="Owned: labour cost of a repair, the same for every part.")
    allocation: Literal["requested", "gpus"] | None = Field(
        None, description="How several jobs share the cost: by the GPU-time that they requested, or by their GPUs."
    )

    def _broken_rules(self) -> "BrokenRules":
        owned = [name for name in _OWNED if getattr(self, name) not in (None, {})]
        if self.gpu_hour is not None and owned:
            message = (
                f"is the price of rented GPUs, and {', '.join(owned)} that of owned ones: give one of these, not both"
            )
            yield ("gpu_hour",), message
        if self.energy_profile is not None and self.energy is None:
            yield ("energy_profile",), "multiplies the price of a kWh: give energy too"
        missing = [name for name in ("capex", "years") if getattr(self, name) is None]
        if self.gpu_hour is None and missing:
            rule = "give gpu_hour for rented GPUs, or capex and years for owned ones"
            yield (), f"{rule} (missing: {', '.join(missing)})"


# Blocking work that a job does again and again: evaluation, checks for corruption, loading of data.


def _parse_every(value: object) -> str:
    """Read a duration or ``K steps``."""
    if isinstance(value, str):
        words = value.split()
        if len(words) == 2 and words[1] in ("step", "steps"):
            if not words[0].isdecimal() or int(words[0]) == 0:
                raise ValueError(f"'{value}': the number of steps must be a whole number above zero")
            return f"{int(words[0])} steps"
    seconds = units.parse(value, units.DURATION)
    if seconds <= 0:
        raise ValueError("must be longer than zero")
    return units.show(seconds, units.DURATION)


Every = Annotated[
    str, BeforeValidator(_parse_every), WithJsonSchema({"type": "string", "examples": ["1000 steps", "2 h"]})
]


class PeriodicWork(Model):
    """Work that stops training each time; its time goes to the bucket ``auxiliary``."""

    name: str = Field(min_length=1, description="Name of the work, for example evaluation.")
    every: Every = Field(description="Stepping between two times: a number of steps, or a time.")
    time: Duration = Field(gt=0, description="How long training stops.")

    @property
    def steps(self) -> int:
        """Steps between two times; 0 where a time is given."""
        return int(self.every.split()[0]) if self.every.endswith("steps") else 0

    @property
    def seconds(self) -> float:
        """Stepping between two times [s]; 0 where steps are given."""
        return 0.0 if self.steps else units.parse(self.every, units.DURATION)


_MOST = 10**7
"""Ranks of a group at most; more are a slip of the pen."""


class GlobalBatch(Model):
    """The global batch of one step."""

    tokens: Count = Field(description="Tokens in one step of the whole job.", gt=0, le=10**12)
    sequence: Count = Field(description="Tokens in one sequence.", gt=0)
    on_loss: Literal["shrink", "keep"] = Field(
        "shrink",
        description="Effect of a missing replica: shrink trains fewer tokens a step; keep gives its share to the "
        "others, which take longer.",
    )

    def _broken_rules(self) -> "BrokenRules":
        if self.tokens % self.sequence:
            yield ("tokens",), f"{self.tokens} tokens are not a whole number of sequences of {self.sequence} tokens"


class Parallelism(Model):
    """The layout of the model: gpus = tensor x context x pipeline x data."""

    tensor: int = Field(1, ge=1, le=_MOST, description="Tensor parallelism (TP): GPUs that share each layer.")
    context: int = Field(1, ge=1, le=_MOST, description="Context parallelism (CP): GPUs that share each sequence.")
    pipeline: int = Field(1, ge=1, le=_MOST, description="Pipeline parallelism (PP): stages.")
    data: int = Field(1, ge=1, le=_MOST, description="Data parallelism (DP): replicas.")
    expert: int = Field(
        1,
        ge=1,
        le=_MOST,
        description="Expert parallelism (EP): GPUs that share the experts of a layer; of data, of data and context, or "
        "of data, context and tensor.",
    )
    ulysses: int = Field(
        1,
        ge=1,
        le=_MOST,
        description="Context GPUs that exchange tokens for heads by all-to-all (DeepSpeed-Ulysses), of context; the "
        "others pass keys and values on in a ring (hierarchical context parallelism). 1: only a ring.",
    )
    expert_tensor: int = Field(
        1, ge=1, le=_MOST, description="Expert tensor parallelism (ETP): GPUs of a tensor group that share each expert."
    )
    order: tuple[GroupKind, ...] = Field(
        ORDER,
        description="From the fastest-varying rank to the slowest; neighbours in rank are neighbours in the cluster.",
    )
    virtual_pipeline: int = Field(
        1,
        ge=1,
        le=_MOST,
        description="Model chunks of each pipeline stage (virtual pipeline); above 1 they are interleaved.",
    )
    first_stage_layers: Count | None = Field(
        None, gt=0, description="Layers of the first pipeline stage, where it has fewer (or more) than the others."
    )
    last_stage_layers: Count | None = Field(None, gt=0, description="The same of the last pipeline stage.")
    within_domain: tuple[GroupKind, ...] = Field(
        (), description="Kinds of groups that must fit into a scale-up domain; others may be cut, with a warning."
    )

    @property
    def gpus(self) -> int:
        """Number of GPUs of this layout."""
        return self.tensor * self.context * self.pipeline * self.data

    @property
    def expert_covers(self) -> tuple[GroupKind, ...]:
        """The coordinates in which the ranks of an expert group differ."""
        return expert_covers(self.context, self.data, self.expert)

    def _broken_rules(self) -> "BrokenRules":
        if self.tensor % self.expert_tensor:
            nearest = near_divisors(self.tensor, self.expert_tensor)
            message = f"{self.expert_tensor} GPUs do not divide tensor {self.tensor}; nearest: {nearest}"
            yield ("expert_tensor",), message
        apart = self.tensor // self.expert_tensor
        valid = expert_sizes(apart, self.context, self.data)
        if self.expert not in valid:
            rule = undivided_experts(apart, self.context, self.data, self.expert)
            yield ("expert",), f"{rule}; nearest: {near(valid, self.expert)}"
        if sorted(self.order) != sorted(ORDER):
            whole = [*dict.fromkeys(self.order), *(kind for kind in ORDER if kind not in self.order)]
            yield ("order",), f"must name each of {', '.join(ORDER)} once; for example [{', '.join(whole)}]"


AnyRecompute: TypeAlias = Annotated[
    Annotated[Literal["none", "selective", "full"], Tag("word")] | Annotated[tuple[Module, ...], Tag("description")],
    Discriminator(_form),
]


class Execution(Model):
    """The execution of a step; it matters where the step-time model gives its time."""

    microbatch: Count = Field(1, gt=0, description="Microbatch size in sequences.")
    schedule: Schedule = Field("1f1b", description="Pipeline schedule; 1f1b interleaves model chunks.")
    recompute: AnyRecompute = Field(
        "none",
        description="Activation recomputation: none, selective (what costs little; the core of attention in models "
        "without gates), full layers, or a list of modules.",
    )
    recompute_layers: Count | None = Field(
        None, gt=0, description="With recompute: full, layers of each stage that are recomputed; without it, all."
    )
    sharding: Sharding = Field(
        "optimizer",
        description="State that replicas divide among them: nothing, the optimizer's state (ZeRO-1), gradients too "
        "(ZeRO-2), or parameters too (FSDP, ZeRO-3).",
    )
    shard_ranks: Count | None = Field(
        None, gt=0, description="Ranks that parameters are divided among (hybrid sharding); without it, all replicas'."
    )
    gradients: Literal["fp32", "bf16"] | None = Field(
        None,
        description="Precision in which gradients are accumulated and reduced; without it fp32 in steps at bf16, and "
        "bf16 below.",
    )
    optimizer_state: State = Field("fp32", description="Precision of the two moments of the optimizer.")
    offload_optimizer: bool = Field(
        False, description="Whether the host keeps the optimizer's state and updates the parameters."
    )
    offload_layers: Count = Field(
        0, description="Layers of each stage whose activations wait in the host's memory for the backward pass."
    )
    loss: Loss = Field(
        "vocab-parallel",
        description="Memory of the loss: fused (logits stay at 16 bits, in place), vocab-parallel (Megatron: a 32-bit "
        "copy), or eager (PyTorch without fusion: several).",
    )
    fused_elementwise: bool = Field(
        True, description="Whether element-wise operations are fused (Transformer Engine, torch.compile)."
    )
    keep_gathered: bool = Field(
        False,
        description="Whether tensor ranks keep the gathered inputs of products for the backward pass (DTensor, "
        "nanotron) instead of gathering them again (Megatron).",
    )
    sequence_parallel: bool = Field(
        True, description="Sequence parallelism: tensor ranks also divide what lies between the matrix products."
    )
    fused_attention: bool = Field(True, description="FlashAttention: no scores in memory, the masked half skipped.")
    attention: Literal["bf16", "fp8"] = Field("bf16", description="Arithmetic of the core of attention.")
    cuda_graphs: bool | Literal["partial"] = Field(
        False,
        description="Whether a whole iteration is one CUDA graph, so that no kernel waits for the host; partial: "
        "attention and routing are graphs, and experts are started one by one.",
    )
    overlap_tensor: bool = Field(True, description="Whether tensor-parallel communication overlaps with computing.")
    overlap_data: bool = Field(True, description="Whether data-parallel communication overlaps with computing.")
    overlap_expert: bool = Field(
        False, description="Whether the expert all-to-all overlaps with the computing of another microbatch (DualPipe)."
    )
    expert_imbalance: float = Field(
        1.0,
        ge=1,
        description="Tokens of the busiest expert rank over the mean; 1 is balanced routing, as in benchmarks.",
    )
    expert_capacity: float | None = Field(
        None,
        gt=0,
        description="Capacity factor: tokens beyond so many times an expert's mean share are dropped, and fewer are "
        "padded to it; without it none is dropped.",
    )

    def _broken_rules(self) -> "BrokenRules":
        if self.shard_ranks is not None and self.sharding != "parameters":
            message = f"is for sharding: parameters; with sharding: {self.sharding} all replicas divide the state"
            yield ("shard_ranks",), message
        if self.recompute_layers is not None and self.recompute != "full":
            yield ("recompute_layers",), "is for recompute: full; a list of modules names what to recompute"
        if self.expert_capacity is not None and self.expert_imbalance != 1:
            message = "has no effect where expert_capacity drops or pads each expert's tokens; leave out one of the two"
            yield ("expert_imbalance",), message
        if isinstance(self.recompute, tuple) and len({*self.recompute}) != len(self.recompute):
            yield ("recompute",), "names a module twice"
        if self.offload_layers and self.recompute == "full" and self.recompute_layers is None:
            message = (
                "recompute: full keeps no activations to offload; give recompute_layers, or leave out one of the two"
            )
            yield ("offload_layers",), message


class Lora(Model):
    """Low-rank adapters in addition to frozen weights (LoRA, arXiv 2106.09685)."""

    rank: Count = Field(gt=0, description="Rank of the adapters.")
    modules: Literal["attention", "all"] = Field(
        "attention", description="Modules with adapters: attention, or feed-forward parts too (experts have none)."
    )


class SoftwareSpec(Model):
    """The share of the dense peak that kernels reach by themselves, as benchmarks of kernels publish it."""

    gemm: Fraction | None = Field(None, gt=0, description="Best large matrix product, at the precision of the step.")
    attention: Fraction | None = Field(
        None, gt=0, description="Core of attention, forward and backward, of the peak at its own precision."
    )


AnySoftware: TypeAlias = Annotated[
    Annotated[str, Tag("word")] | Annotated[SoftwareSpec, Tag("description")], Discriminator(_form)
]


class Calibration(Model):
    """A measured step of the same model on the same hardware; what is left out is as in the job."""

    step_time: Duration = Field(gt=0, description="The measured step time.")
    batch: GlobalBatch | None = Field(None, description="The global batch that was measured.")
    parallelism: Parallelism | None = Field(None, description="The layout that was measured; gives the GPUs too.")
    execution: Execution | None = Field(None, description="How the measured step was executed.")


class Work(Model):
    """A fixed amount of work: exactly one of the three."""

    tokens: Count | None = Field(None, description="Tokens to train on.")
    steps: Count | None = Field(None, description="Optimizer steps.")
    time: Duration | None = Field(None, description="Time that it takes without any loss.")

    def _broken_rules(self) -> "BrokenRules":
        stated = [name for name in ("tokens", "steps", "time") if getattr(self, name)]
        if len(stated) != 1:
            yield (), f"give exactly one of tokens, steps and time, above zero (given: {', '.join(stated) or 'none'})"


AnyWork: TypeAlias = Annotated[
    Annotated[Literal["horizon"], Tag("word")] | Annotated[Work, Tag("description")], Discriminator(_form)
]

AnyModel: TypeAlias = Annotated[
    Annotated[str, Tag("word")] | Annotated[ModelSpec, Tag("description")], Discriminator(_form)
]


class JobSpec(Model):
    """A training job."""

    name: str = Field(min_length=1, description="Name of the job; unique in the scenario.")
    gpus: Count = Field(gt=0, description="GPUs that the job asks for; a whole number of nodes.")
    model: AnyModel | None = Field(None, description="A model of the catalog, or its shape; gives the FLOP of a step.")
    step_time: Duration | None = Field(
        None, description="Measured time of a healthy step; without it the step-time model gives it."
    )
    mfu: Fraction | None = Field(None, description="Published model FLOP utilisation; gives the time of a step.")
    calibration: Calibration | None = Field(
        None, description="A measured step of this model and cluster; scales what the step-time model says."
    )
    batch: GlobalBatch | None = Field(None, description="The global batch; needed for tokens and steps.")
    parallelism: Parallelism | None = Field(None, description="Layout; its product must be the number of GPUs.")
    lora: Lora | None = Field(
        None, description="Fine-tuning with adapters: weights are frozen and have neither gradients nor moments."
    )
    execution: Execution = Field(
        default_factory=lambda: Execution.model_validate({}), description="How a step is executed."
    )
    precision: Precision = Field("bf16", description="Arithmetic of the matrix products.")
    software: AnySoftware | None = Field(
        None,
        description="The age of the kernels: a name of the catalog, such as flash-attention-2, or the shares that they "
        "reach; without it, those of the fitted steps.",
    )
    communication: Fraction | None = Field(
        None,
        description="Share of a healthy step that waits for communication between nodes; lost bandwidth stretches it. "
        "Without it the step-time model gives it, and where there is none, nothing waits.",
    )
    periodic: tuple[PeriodicWork, ...] = Field(
        (), description="Periodic blocking work: evaluation, checks for corruption, loading of data."
    )
    arrival: Duration = default("0 s", description="When the job enters the queue.")
    priority: int = Field(
        0, ge=-(2**31), lt=2**31, description="Priority relative to jobs of streams; higher goes first."
    )
    tenant: str | None = Field(None, description="Tenant of the job, if there are streams.")
    partition: str | None = Field(
        None, description="Partition in which it queues, if there are streams [default: the first]."
    )
    qos: int = Field(
        0, ge=-(10**6), le=10**6, description="Quality of service: see streams; it needs scheduler.preempt.who: qos."
    )
    deadline: Duration | None = Field(None, description="For p_finish_by: time from arrival to finish.")
    work: AnyWork = Field("horizon", description="A fixed amount, or as much as the horizon holds.")

    @property
    def may_wait(self) -> bool:
        """Whether less bandwidth may slow it: as it states, or as the step-time model will say."""
        return self.communication > 0 if self.communication is not None else not self.lacks

    @property
    def lacks(self) -> str:
        """The inputs that the step-time model lacks, in words; empty where it has all."""
        missing = [name for name in ("model", "batch", "parallelism") if getattr(self, name) is None]
        return " and ".join(missing)

    def _broken_rules(self) -> "BrokenRules":
        layout = self.parallelism
        if layout is not None and layout.gpus != self.gpus:
            sizes = " x ".join(f"{name} {getattr(layout, name)}" for name in ("tensor", "context", "pipeline", "data"))
            yield ("parallelism",), f"multiplies to {layout.gpus} GPUs ({sizes}), but the job asks for {self.gpus}"
        names = [work.name for work in self.periodic]
        for index, name in enumerate(names):
            if name in names[:index]:
                yield ("periodic", index, "name"), f"'{name}' is also the name of an earlier one"
        yield from self._broken_step()
        if isinstance(self.work, Work):
            yield from self._broken_work(self.work)
        elif self.deadline is not None:
            message = "needs a fixed amount of work, for example work: {time: 20 d}; with work: horizon no job finishes"
            yield ("deadline",), message

    def _broken_step(self) -> "BrokenRules":
        """Yield what does not go together in the time of a step."""
        if self.step_time is not None and self.mfu is not None:
            yield ("mfu",), "give step_time or mfu, not both: each follows from the other"
        if self.mfu is not None and (self.model is None or self.batch is None):
            lacking = " and ".join(name for name in ("model", "batch") if getattr(self, name) is None)
            yield ("mfu",), f"needs model and batch: the time of a step follows from their FLOP (missing: {lacking})"
        if self.calibration is not None and (self.step_time is not None or self.mfu is not None):
            yield ("calibration",), "give calibration or a measured step of this very job (step_time, mfu), not both"
        if self.calibration is not None and self.lacks:
            yield ("calibration",), f"scales what the step-time model says, and that lacks {self.lacks}"

    def _broken_work(self, work: Work) -> "BrokenRules":
        """Yield what a fixed amount of work needs and is not there."""
        if work.tokens is not None and self.batch is None:
            yield ("work", "tokens"), "work in tokens needs batch: it states the tokens of a step"
        if work.time is None and self.step_time is None and self.mfu is None and self.lacks:
            rule = "work in tokens or steps needs the time of a step: give step_time, mfu, or a model with batch"
            yield ("work",), f"{rule} and parallelism (missing: {self.lacks})"


class StandbyNodes(Model):
    """Nodes outside the allocation that take a while to be of use."""

    nodes: Count = Field(gt=0, description="How many.")
    delay: Duration = Field(description="Time from request to ready.")
    one_by_one: bool = Field(False, description="Whether several are made ready one after another, or all at once.")
    refills: bool = Field(True, description="Whether repaired nodes fill it up again.")


class Spares(Model):
    """Nodes kept ready for jobs that lose one; all jobs share them. Repaired nodes fill them in this order."""

    hot: Count = Field(0, description="Healthy nodes in the allocation, of use at once.")
    warm: StandbyNodes | None = Field(None, description="Nodes that are powered, but outside the allocation.")
    cold: StandbyNodes | None = Field(None, description="Nodes that must be provisioned, or freed of other work.")
    unit: str | None = Field(
        None, description="Part that jobs use whole, such as rack: when one of its nodes is out, all are."
    )
    idle: Literal["serve", "withhold"] = Field(
        "serve", description="Nodes beyond those of all jobs and these spares: they serve like spares, or stay unused."
    )

    @property
    def total(self) -> int:
        """Nodes that are held back."""
        return self.hot + sum(standby.nodes for standby in (self.warm, self.cold) if standby is not None)

"""The cost of inference: time per output token, prefill, room for keys and values, batch, power, as a closed form.

Symbols: L layers, h width, t ranks that share the attention of a sequence (tensor parallelism), d ranks that have
sequences of their own (data-parallel attention), n = t d ranks of a pipeline stage, p stages, B sequences decoded
together by the whole replica, C tokens of context of one. All functions take floats or arrays that broadcast.

References
----------
G. Yu et al., "Orca", OSDI 2022 (iterations as the unit of scheduling); A. Agrawal et al., "Sarathi-Serve", OSDI 2024,
arXiv 2403.02310 (prefills that take part in decode steps); R. Pope et al., "Efficiently scaling transformer inference",
MLSys 2023, arXiv 2211.05102 (bytes and FLOP of a step).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import numpy as np

from ettrick.sim.steps.power import board_share, capped_pace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ettrick.sim.steps.hardware import Accelerator, Precision
    from ettrick.sim.steps.shape import Amount, ModelShape

_Number = TypeVar("_Number")

BYTES: Mapping[str, float] = {"bf16": 2.0, "fp8": 1.0, "mxfp8": 1.0 + 1 / 32, "nvfp4": 0.5 + 1 / 16}
"""Bytes of a weight, the scales of its block included [B]."""

IDLE_GPU = 0.1
"""The power of a GPU without work over that of the board; assumed [-]."""

_SIXTEEN = 2.0
"""Bytes of a number at 16 bits [B]."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A serving engine by its numbers.

    Parameters
    ----------
    title, release, source
        What it is called in full, the releases that were fitted, and where its numbers come from.
    launch
        Time of a layer in which the GPU waits for its host, or for a kernel to begin [s].
    sequence
        Time of the host for each sequence and step: scheduling, sampling, tokens to text [s].
    admission
        ``on-demand`` admits a request when its prompt fits, and computes it again if room runs out later;
        ``reserve`` keeps room for the prompt and the longest answer, and never evicts.
    memory
        Share of the device memory that it uses [-].
    is_of_free
        Whether `memory` is a share of what weights and `reserved` leave free, not of all.
    reserved
        Memory of a GPU that holds neither weights nor keys and values: activations, graphs, communicators [B].
    sequences
        Sequences decoded together at most, of one rank of data-parallel attention [-].
    chunk
        Tokens of prompts that one step reads at most (chunked prefill) [-].
    narrow_cache
        Whether keys and values take 8 bits where weights take 8 or less.
    factor
        Measured over modelled time of this release, where the constants were not fitted to it [-].
    is_eager
        Whether the host launches every kernel of a step by itself, without captured graphs.
    """

    title: str
    release: str
    source: str
    launch: float
    sequence: float
    admission: Literal["on-demand", "reserve"]
    memory: float
    is_of_free: bool
    reserved: float
    sequences: int
    chunk: int
    narrow_cache: bool
    factor: float = 1.0
    is_eager: bool = False


@dataclass(frozen=True, slots=True)
class ServingConstants:
    """Numbers of the model of inference that no data sheet gives; `make fit-serving` fits them to measured steps.

    Parameters
    ----------
    memory
        Share of the memory's bandwidth that weights, keys and values are read with, by generation, or ``other`` [-].
    gemm
        Share of the peak of matrix products, by precision of the products [-].
    attention
        Share of the 16-bit peak of attention in a prefill [-].
    latent
        The same for attention over the latent keys of MLA while decoding [-].
    expert_read
        Bandwidth of experts relative to that of plain layers [-].
    expert_width
        Width of an expert whose products take twice what they take in a plain layer: what else is done for each routed
        token, to permute, quantize and sum, is as wide as the model, and products are wider with the expert [-].
    expert_launch
        What a layer with experts adds to the launches [s].
    collective
        Start of a collective inside a domain, in a captured graph [s].
    step
        Time of a step that belongs to no layer [s].
    dispatch
        Time in which a host launches the kernels of a layer one by one, by generation as above [s].
    touches
        Bytes that the element-wise passes of a layer move for a token, over those of its activations (2 h) [-].
    gather
        Share of the memory's bandwidth that lookups of random rows reach [-].
    scale_up, network
        Shares of the links' bandwidth that collectives reach [-].
    imbalance
        Load of the busiest expert rank over the mean [-].
    power
        By generation as above: GPU power over board power = a + b (share of bandwidth) + c (share of peak), at most 1.
    fitted
        ``generations`` of accelerators and ``models`` of which measured steps were fitted; ``pairs`` of engines and
        kinds of models, each with the generations of its steps.
    sigma
        Standard deviation of the logarithm of predicted over measured times [-]: ``fitted``, ``accelerator`` and
        ``model`` (not among the fitted ones), ``experts``, ``pair`` (an engine that was fitted to no model of the
        kind), ``calibrated``.
    """

    memory: Mapping[str, float]
    gemm: Mapping[str, float]
    attention: float
    latent: float
    expert_read: float
    expert_width: float
    expert_launch: float
    collective: float
    step: float
    dispatch: Mapping[str, float]
    touches: float
    gather: float
    scale_up: float
    network: float
    imbalance: float
    power: Mapping[str, Sequence[float]]
    fitted: Mapping[str, Sequence[str]]
    sigma: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica of a served model, and its hardware.

    Parameters
    ----------
    shape, chip, engine, constants
        The model, the accelerator, the engine, and the fitted numbers.
    weights, cache
        Precision of the weights, and of keys and values.
    tensor, data, pipeline
        Ranks t that share the attention of a sequence, ranks d with sequences of their own, stages p [-]. Feed-forward
        parts and experts are shared by all t d ranks of a stage.
    domain
        GPUs of a scale-up domain [-].
    network
        Bandwidth of a GPU's share of NICs, one direction [B/s].
    factor
        Measured over modelled time of this engine on this hardware [-].
    streams
        Whether tokens are sent one by one; else the host has no work for each sequence and step.
    draft, accept, draft_cost
        Tokens that are drafted for a step to verify, the probability that one is accepted, and the time to draft one
        over that of the step [-].
    """

    shape: ModelShape
    chip: Accelerator
    engine: Engine
    constants: ServingConstants
    weights: Precision
    cache: Precision
    tensor: int = 1
    data: int = 1
    pipeline: int = 1
    domain: int = 8
    network: float = 50e9
    factor: float = 1.0
    streams: bool = True
    draft: int = 0
    accept: float = 0.0
    draft_cost: float = 0.0

    @property
    def slowdown(self) -> float:
        """Time over that of the constants: of the release, and of this replica [-]."""
        return self.engine.factor * self.factor

    @property
    def gpus(self) -> int:
        """Ranks of all stages together [-]."""
        return self.tensor * self.data * self.pipeline

    @property
    def ranks(self) -> int:
        """Ranks of one stage, n [-]."""
        return self.tensor * self.data

    def by_generation(self, table: Mapping[str, _Number]) -> _Number:
        """Return what a table has for the generation of the chip, or for others."""
        return table[self.chip.generation if self.chip.generation in table else "other"]

    @property
    def products(self) -> Precision:
        """Precision of the matrix products: that of the weights, or 16 bits where the chip multiplies no narrower."""
        return self.weights if self.weights in self.chip.peak else "bf16"

    @property
    def peak(self) -> float:
        """Peak of the matrix products that is reached, e_q times that of the data sheet [FLOP/s]."""
        return self.chip.peak[self.products] * self.constants.gemm[self.products]

    @property
    def bandwidth(self) -> float:
        """Bandwidth of the memory that is reached [B/s]."""
        return self.chip.memory_bandwidth * self.by_generation(self.constants.memory)

    @property
    def plain_layer(self) -> float:
        """Parameters of a mean layer that all tokens meet, but for attention [-]."""
        shape = self.shape
        total = shape.dense_part * (shape.layers - self.expert_layers)
        return (total + shape.shared_part * self.expert_layers) / shape.layers

    @property
    def expert_layers(self) -> int:
        """Layers with experts; modules that predict further tokens are not served [-]."""
        experts = self.shape.experts
        return self.shape.layers - experts.dense_layers if experts is not None else 0

    @property
    def routing(self) -> float:
        """Time of the products of experts over what as much work takes in a plain layer [-]."""
        experts = self.shape.experts
        return 1.0 if experts is None else 1.0 + self.constants.expert_width / experts.ffn

    @property
    def weight_bytes(self) -> float:
        """Weights on one GPU; embeddings and the product with the vocabulary stay at 16 bits [B]."""
        shape = self.shape
        experts = 0.0 if shape.experts is None else shape.experts.count * shape.expert * self.expert_layers
        layers = shape.layers * (shape.attention_parameters / self.tensor + self.plain_layer / self.ranks)
        tables = shape.embeddings * _SIXTEEN / self.tensor
        return (layers + experts / self.ranks) * BYTES[self.weights] / self.pipeline + tables / self.pipeline

    @property
    def copies(self) -> float:
        """Share of a token's keys and values that one rank of its attention keeps: more ranks than heads copy [-]."""
        shape = self.shape
        return 1.0 if shape.latent is not None else 1.0 / min(self.tensor, shape.kv_heads)

    def cache_bytes(self, tokens: Amount) -> Amount:
        """Return the keys, values and states that one GPU keeps of a sequence of some tokens [B]."""
        shape = self.shape
        width = shape.kv_width * BYTES[self.cache] * self.copies
        layer_bytes = shape.attended(tokens) * width + shape.recurrent_state / self.tensor
        return shape.layers * layer_bytes / self.pipeline


class Requests(NamedTuple):
    """The mean sizes of requests.

    Parameters
    ----------
    input, output
        Tokens of the prompt, and of the answer [-].
    longest
        Tokens of the longest answer that is allowed, for engines that reserve; 0 for that of `output` [-].
    hit
        Share of the prompt that a prefix cache holds [-].
    spread
        Standard deviation over mean of the prompts' tokens [-].
    whole
        Length of the answers that are in flight at a time over that of all, E[S²] / E[S]² (inspection paradox) [-].
    gaps
        Squared coefficient of variation of the gaps between requests of a replica: 1 for Poisson arrivals, 1 / R where
        R replicas get them in turn [-].
    """

    input: Amount
    output: Amount
    longest: Amount = 0.0
    hit: Amount = 0.0
    spread: Amount = 0.0
    whole: Amount = 1.0
    gaps: Amount = 1.0

    @property
    def context(self) -> Amount:
        """Mean tokens of context of a sequence that is being decoded, C: half of its answer is there [-]."""
        return self.input + self.whole * self.output / 2


class DecodeStep(NamedTuple):
    """The time of one decode step by what takes it, of all stages together [s]."""

    weights: Amount
    experts: Amount
    cache: Amount
    elementwise: Amount
    collectives: Amount
    launches: Amount
    host: Amount

    @property
    def total(self) -> Amount:
        """All of it [s]."""
        return sum(self)


def decode(replica: Replica, batch: Amount, context: Amount) -> DecodeStep:
    r"""Return the time between two tokens of a sequence while nobody's prompt is read.

    .. math:: \max(w / e_h H, b f / e_q \Pi) + experts + b \kappa C / e_h H + 2 L (\alpha + ...) + L \tau + b \sigma

    Parameters
    ----------
    replica
        What decodes.
    batch
        Sequences decoded together by the replica, B; each of d ranks has b = B / d [-].
    context
        Tokens of context of a sequence, C [-].
    """
    stages, layers = replica.pipeline, replica.shape.layers
    # With fewer sequences than stages some stages wait: none works on a part of one.
    batch = np.maximum(batch / stages, np.minimum(batch, 1.0))
    sequences = batch / replica.data
    # A step that verifies a draft of gamma tokens does the work of gamma + 1, and reads keys and values once.
    batch = batch * (1 + replica.draft)
    tokens = batch / replica.data
    handovers = (stages - 1) * 2 * tokens * replica.shape.hidden / replica.network
    work = (
        _weights(replica, batch, tokens),
        _experts(replica, batch),
        _cache(replica, sequences, tokens, context),
        _elementwise(replica, tokens),
        _collectives(replica, tokens) * layers + handovers,
    )
    constants, engine = replica.constants, replica.engine
    launches: Amount = layers * engine.launch + replica.expert_layers * constants.expert_launch + constants.step
    if engine.is_eager:
        launches = np.maximum(launches, layers * replica.by_generation(constants.dispatch) - sum(work))
    scale = replica.slowdown * (1 + replica.draft * replica.draft_cost) / speculated(replica.draft, replica.accept)
    # Each stage has its share of the layers, so p stages take the time of all layers; the host works for every stage.
    host = sequences * stages * (engine.sequence if replica.streams else 0.0)
    return DecodeStep(*(scale * part for part in (*work, launches, host)))


def _weights(replica: Replica, batch: Amount, tokens: Amount) -> Amount:
    """Return the time of all weights but those of experts: reading them, or the products of a batch with them [s]."""
    shape = replica.shape
    attention = shape.layers * shape.attention_parameters / replica.tensor
    plain = shape.layers * replica.plain_layer / replica.ranks
    logits = shape.embedding / replica.tensor
    size = (attention + plain) * BYTES[replica.weights] + 2 * shape.embedding * _SIXTEEN / replica.tensor
    compute = 2 * ((attention + logits) * tokens + plain * batch) / replica.peak
    return np.maximum(size / replica.bandwidth, compute)


def _experts(replica: Replica, batch: Amount) -> Amount:
    """Return the time of the experts that a batch meets [s].

    Of E experts of a layer, `top` of which a token meets, B tokens meet E (1 - (1 - top / E)^B): only these are read.
    """
    shape, constants = replica.shape, replica.constants
    if shape.experts is None:
        return 0.0
    inside = replica.expert_layers * shape.expert * constants.imbalance / replica.ranks
    met = shape.experts.count * (1 - (1 - shape.experts.active / shape.experts.count) ** batch)
    return np.maximum(
        inside * met * BYTES[replica.weights] / (replica.bandwidth * constants.expert_read),
        2 * inside * shape.experts.active * batch / replica.peak * replica.routing,
    )


def _cache(replica: Replica, sequences: Amount, tokens: Amount, context: Amount) -> Amount:
    """Return the time of keys and values of a context: reading them, or computing with latent ones [s]."""
    shape = replica.shape
    reading = sequences * replica.cache_bytes(context) * replica.pipeline / replica.bandwidth
    if shape.latent is None:
        return reading
    # Every head multiplies with the same latent keys: 2 (2 r + rotary) FLOP of a head, token and layer.
    width = 2 * shape.latent.kv_rank + shape.latent.rotary
    work = 2 * shape.heads * width * shape.layers * shape.attended(context) / replica.tensor
    return np.maximum(reading, tokens * work / (replica.constants.latent * replica.chip.peak["bf16"]))


def _elementwise(replica: Replica, tokens: Amount) -> Amount:
    """Return the time of the element-wise passes of some tokens, decoded or of a prompt, through all layers [s]."""
    moved = tokens * replica.shape.layers * 2 * replica.shape.hidden * replica.constants.touches
    return moved / replica.chip.memory_bandwidth


def _collectives(replica: Replica, tokens: Amount) -> Amount:
    """Return the time of the collectives of a layer for some tokens of each rank of data-parallel attention [s]."""
    shape, constants, chip = replica.shape, replica.constants, replica.chip
    t, d, n = replica.tensor, replica.data, replica.ranks
    inside = constants.scale_up * chip.scale_up
    time: Amount = 0.0
    if t > 1:
        link = inside if t <= replica.domain else constants.network * replica.network
        time = 2 * (constants.collective + 2 * (t - 1) / t * _SIXTEEN * tokens * shape.hidden / link)
    if d > 1 and shape.experts is not None:
        # To the ranks of its experts and back: a token travels once to each of at most `active` other ranks.
        link = inside if n <= replica.domain else constants.network * replica.network
        sent = tokens * shape.hidden * min(shape.experts.active, d) * (d - 1) / d
        share = replica.expert_layers / shape.layers
        time = time + share * (2 * constants.collective + sent * (BYTES[replica.weights] + _SIXTEEN) / link)
    return time


def prefill(replica: Replica, tokens: Amount, hit: Amount = 0.0) -> Amount:
    """Return the time in which a replica's rank of attention reads one prompt of some tokens, `hit` of it cached [s].

    While decoding goes on the host is covered by it; alone, a prefill takes no less than its launches: see
    :func:`least_prefill`.
    """
    shape, constants, chip = replica.shape, replica.constants, replica.chip
    t = replica.tensor
    layers = shape.layers
    new = tokens * (1 - hit)
    # All d ranks read prompts at the same time, so that what n = t d ranks share costs each prompt 1 / t of its work.
    work = 2 * new * layers * (shape.attention_parameters + replica.plain_layer) / (t * replica.peak)
    if shape.experts is not None:
        met = replica.expert_layers * shape.experts.active * shape.expert * constants.imbalance
        work = work + 2 * new * met / (t * replica.peak) * replica.routing
    # The half of the scores that is not masked, of the new tokens with all before them.
    scores = shape.attention_width * layers * new * shape.scored(tokens) / t
    work = work + scores / (constants.attention * chip.peak["bf16"]) + _elementwise(replica, new)
    return replica.slowdown * (work + layers * (_collectives(replica, new) - _collectives(replica, 0.0)))


def least_prefill(replica: Replica) -> float:
    """Return the least time of a prefill while nobody decodes: launches and starts of collectives [s]."""
    constants = replica.constants
    layer = replica.engine.launch + (2 * constants.collective if replica.tensor > 1 else 0.0)
    if replica.engine.is_eager:
        layer = max(layer, replica.by_generation(constants.dispatch))
    return replica.slowdown * replica.shape.layers * layer


def time_per_token(replica: Replica, batch: Amount, requests: Requests, *, interferes: bool = True) -> Amount:
    """Return the mean time per output token (TPOT) of a replica with `batch` sequences in flight [s].

    In steady state every request brings one prefill for its S_o steps, and the steps of all others wait for it: TPOT =
    t_d + B t_p / (d p S_o), as each of p stages reads prompts of its own. With prefills on other GPUs
    (``interferes=False``) it is t_d.
    """
    time = decode(replica, batch, requests.context).total
    if interferes:
        ranks = replica.data * replica.pipeline
        time = time + batch / ranks * prefill(replica, requests.input, requests.hit) / requests.output
    return time


def time_to_first_token(replica: Replica, batch: Amount, requests: Requests) -> Amount:
    r"""Return the mean time to the first token (TTFT) at `batch` sequences in flight, waits for room aside [s].

    .. math:: \frac{E[T^2]}{2 E[T]} + t_d + t_p + \rho \frac{E[T^2]}{E[T]},
        \quad Var[T] = \frac{\rho E[T] t_p (1 + c^2)}{1 - \rho^2}

    A request waits for the rest of an iteration, and is read in the next one with all that came during the same:
    T' = t_d + N t_p with N of Poisson's law with mean x T. So E[T] is TPOT, and rho = x t_p.

    Notes
    -----
    Exact for Poisson arrivals at a replica whose steps take the same time and whose prompts fit into a chunk. That
    nobody is there has the probability exp(-B) of a queue with endless servers; then a prompt is read at once. With
    other gaps what others take is scaled as the wait of a queue, (c_a² + c²) / (1 + c²) (Allen and Cunneen).
    """
    step = decode(replica, batch, requests.context).total
    shared = prefill(replica, requests.input, requests.hit) / replica.data / replica.pipeline
    mean = step + batch * shared / requests.output
    rho = 1 - step / mean
    # Residual of the iteration in which a request comes; it comes in long ones more often.
    residual = (mean + rho * shared * (1 + requests.spread**2) / (1 - rho**2)) / 2
    pieces = np.maximum(np.ceil(requests.input * (1 - requests.hit) / (replica.engine.chunk * replica.data)), 1)
    # The last piece passes all stages, those before it follow each other.
    alone = shared * (1 + (replica.pipeline - 1) / pieces)
    idle = np.exp(-batch)
    unloaded = idle * np.maximum(alone, least_prefill(replica))
    wait = residual * (1 + 2 * rho) - step / 2
    wait = wait * (requests.gaps + requests.spread**2) / (1 + requests.spread**2)
    return unloaded + (1 - idle) * (wait + (pieces + 0.5) * step + alone)


def cache_room(replica: Replica) -> float:
    """Return the room for keys, values and states on one GPU [B]; negative where the weights do not fit."""
    engine = replica.engine
    occupied = replica.weight_bytes + engine.reserved
    if engine.is_of_free:
        return engine.memory * (replica.chip.memory - occupied)
    return engine.memory * replica.chip.memory - occupied


def largest_batch(replica: Replica, requests: Requests) -> float:
    """Return the sequences that a replica can have in flight: by room, admission and the engine's limit [-].

    On-demand admission holds the current tokens of each (S_i + S_o / 2 on average), reservation the prompt and the
    longest answer, or its own where none is stated: long ones are in flight for longer.
    """
    tokens = requests.context
    if replica.engine.admission == "reserve":
        tokens = requests.input + max(requests.longest, requests.whole * requests.output)
    size = replica.cache_bytes(tokens)
    return float(max(0.0, min(replica.data * cache_room(replica) / size, replica.data * replica.engine.sequences)))


def batch_within(replica: Replica, requests: Requests, limit: float) -> float:
    """Return the most sequences in flight whose time per token stays within a limit [s]; 0 where not even one does."""

    def fits(batch: float) -> bool:
        return bool(time_per_token(replica, batch, requests) <= limit)

    most = largest_batch(replica, requests)
    if most < 1 or not fits(1.0):
        return 0.0
    if fits(most):
        return most
    low, high = 1.0, most
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def batch_of_load(replica: Replica, requests: Requests, rate: float) -> float:
    """Return the sequences in flight when `rate` requests a second arrive [-]; infinite where that overloads it.

    Little's law, B = x S_o TPOT(B). TPOT grows at most linearly in B with slope s beyond its value at 0, so a solution
    is found by bisection below the largest batch.
    """

    def excess(batch: float) -> float:
        in_flight = rate * requests.output * time_per_token(replica, batch, requests)
        return float(batch - in_flight)

    low, high = 0.0, largest_batch(replica, requests)
    if excess(high) < 0:
        return math.inf
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) >= 0 else (middle, high)
    return high


def largest_rate(replica: Replica, requests: Requests) -> float:
    """Return the requests a second that a replica can carry [1/s]: Little's law at its largest batch."""
    batch = largest_batch(replica, requests)
    if batch < 1:
        return 0.0
    return float(batch / (requests.output * time_per_token(replica, batch, requests)))


class DisaggregatedPools(NamedTuple):
    """Replicas that read prompts, and others that decode: disaggregated serving.

    Parameters
    ----------
    readers, decoders
        A replica of each pool.
    reading, decoding
        How many there are [-].
    """

    readers: Replica
    decoders: Replica
    reading: Amount
    decoding: Amount


def reading_rate(replica: Replica, requests: Requests) -> Amount:
    """Return the prompts a second of a replica that does nothing else [1/s]."""
    alone = np.maximum(prefill(replica, requests.input, requests.hit), least_prefill(replica))
    return replica.data * replica.pipeline / alone


def handover(pools: DisaggregatedPools, requests: Requests) -> Amount:
    """Return the time in which keys and values of a prompt pass to a decoder, by the NICs of the smaller side [s]."""
    prompt_bytes = pools.readers.cache_bytes(requests.input) * pools.readers.tensor * pools.readers.pipeline
    ranks = [replica.tensor * replica.pipeline for replica in (pools.readers, pools.decoders)]
    return prompt_bytes / (pools.readers.constants.network * pools.readers.network * min(ranks))


def pooled_in_flight(pools: DisaggregatedPools, requests: Requests, clients: Amount) -> Amount:
    """Return the sequences in flight of one decoder when `clients` ask again as soon as they are answered [-].

    By Little's law x requests a second have x S_o t_d in decoders and x (t_p + hand-over) in readers; what remains of
    the clients waits for a reader, where these are the bottleneck.
    """
    least = np.maximum(prefill(pools.readers, requests.input, requests.hit), least_prefill(pools.readers))
    most = pools.reading * reading_rate(pools.readers, requests)
    before = least + handover(pools, requests)
    low, high = np.zeros_like(clients / pools.decoding), clients / pools.decoding
    for _ in range(40):
        batch = (low + high) / 2
        rate = pools.decoding * batch / (requests.output * decode(pools.decoders, batch, requests.context).total)
        fits = (rate <= most) & (pools.decoding * batch + rate * before <= clients)
        low, high = np.where(fits, batch, low), np.where(fits, high, batch)
    return low


def power(replica: Replica, batch: Amount, requests: Requests) -> Amount:
    """Return what one GPU draws while a replica serves `batch` sequences, hosts not included [W].

    P / TDP = a + b (bytes read per second / bandwidth) + c (FLOP per second / peak), at most 1.

    Raises
    ------
    ValueError
        If the board power of the accelerator is not published.
    """
    chip = replica.chip
    if chip.power is None:
        raise ValueError(f"the power of {chip.title} is not published")
    time = time_per_token(replica, batch, requests)
    read, work = traffic(replica, batch, requests)
    drawn = chip.power * np.minimum(power_share(replica, read / time, work / time), 1.0)
    return drawn if chip.cap is None else np.minimum(drawn, chip.cap)


def pace_under_cap(replica: Replica, requests: Requests) -> float:
    """Return the pace of a replica whose boards are capped, relative to full clocks [-]: with all that it has room for.

    As that of training (`ettrick.sim.steps.power.capped_pace`) at the share that the cap leaves of what it would draw.
    """
    chip = replica.chip
    if chip.cap is None or chip.power is None:
        return 1.0
    free = replace(replica, chip=replace(chip, cap=None))
    return capped_pace(board_share(chip.cap, float(power(free, largest_batch(free, requests), requests))))


def power_share(replica: Replica, read: Amount, work: Amount) -> Amount:
    """Return what a GPU asks for at `read` bytes and `work` FLOP a second, over the power of its board [-]."""
    chip = replica.chip
    a, b, c = replica.by_generation(replica.constants.power)
    return a + b * read / chip.memory_bandwidth + c * work / chip.peak[replica.products]


def traffic(replica: Replica, batch: Amount, requests: Requests) -> tuple[Amount, Amount]:
    """Return the bytes and FLOP of one GPU for one token of each of `batch` sequences, prefills included [B, FLOP]."""
    shape = replica.shape
    sequences = batch / replica.data
    yielded = speculated(replica.draft, replica.accept)
    read = replica.weight_bytes + sequences * replica.cache_bytes(requests.context)
    met = shape.layers * (
        shape.attention_parameters * sequences / replica.tensor + replica.plain_layer * batch / replica.ranks
    )
    if shape.experts is not None:
        inside = replica.expert_layers * shape.expert / replica.ranks
        looked = batch * (1 + replica.draft) / replica.pipeline
        unmet = (1 - shape.experts.active / shape.experts.count) ** looked
        read = read - inside * shape.experts.count * unmet * BYTES[replica.weights] / replica.pipeline
        met = met + inside * shape.experts.active * batch
    met = met + shape.embedding * sequences / replica.tensor
    tokens = (1 + replica.draft) / yielded + requests.input * (1 - requests.hit) / requests.output
    return read / yielded, 2 * met * tokens / replica.pipeline


def speculated(tokens: int, accept: float) -> float:
    """Return the tokens that a step yields with a draft of `tokens`, each accepted with probability `accept` [-].

    (1 - beta^(gamma + 1)) / (1 - beta).

    References
    ----------
    Y. Leviathan et al., "Fast inference from transformers via speculative decoding", ICML 2023,
    arXiv 2211.17192, equation 1.
    """
    return float(tokens + 1 if accept == 1 else (1 - accept ** (tokens + 1)) / (1 - accept))

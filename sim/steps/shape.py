"""The shape of a transformer: how many parameters it has, and how many of them a token meets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

Amount: TypeAlias = Any

"""A float, or an array that broadcasts with the others."""


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (MLA): low-rank keys and values, as in DeepSeek-V2 (arXiv 2405.04434, section 2.1).

    Parameters
    ----------
    query_rank, kv_rank
        Widths of the compressed queries, and keys and values [-].
    head, rotary, value
        Width of a head's queries and keys without and with rotary position, and of its values [-].
    """

    query_rank: int
    kv_rank: int
    head: int
    rotary: int
    value: int


@dataclass(frozen=True, slots=True)
class StateSpace:
    """Recurrent layers instead of attention: Mamba-2 (arXiv 2405.21060, section 8), gated DeltaNet (arXiv 2412.06464).

    Parameters
    ----------
    inner, state
        Width inside, over all heads, and numbers that each of these channels keeps of a sequence [-].
    groups, heads
        Groups of channels that share what is written and read (keys and queries), and heads [-].
    per_head
        Numbers of a token for each head: its step size, or decay and strength of writing (DeltaNet) [-].
    """

    inner: int
    state: int
    groups: int
    heads: int
    per_head: int = 1

    def parameters(self, hidden: int) -> float:
        """Return the parameters of both projections [-]; the short convolution is left out."""
        return float(hidden * (self.width_in + self.inner))

    @property
    def width_in(self) -> int:
        """Outputs of the first projection: gate, inputs, what is written and read, and numbers of heads [-]."""
        return 2 * self.inner + 2 * self.groups * self.state + self.per_head * self.heads

    @property
    def kept(self) -> float:
        """Values of a token that are kept: gate and inputs before and after the convolution, and the output [-]."""
        return 4.0 * self.inner + 4.0 * self.groups * self.state + self.per_head * self.heads

    @property
    def scan_flop(self) -> float:
        """FLOP of a token between the projections, forward: 7 for each number of the state [FLOP].

        As github NVIDIA/Megatron-LM counts (``mamba_layer_flops``); the gated delta rule has as many: decay, what the
        state predicts, its correction, and the output.
        """
        return 7.0 * self.inner * self.state


@dataclass(frozen=True, slots=True)
class Experts:
    """The feed-forward part of layers in which each token meets a few of many experts.

    Parameters
    ----------
    count, active
        Experts of a layer, and those that a token is sent to [-].
    ffn
        Feed-forward width of one expert [-].
    shared
        Feed-forward width that all tokens meet in addition to the experts [-].
    dense_layers
        Layers that have no experts; they come first [-].
    domains
        Scale-up domains that a token is sent to at most, where routing is limited so [-]; 0 for any.
    latent
        Width that tokens are projected to on their way to experts [-]; 0 for that of the hidden state.
    """

    count: int
    active: int
    ffn: int
    shared: int = 0
    dense_layers: int = 0
    domains: int = 0
    latent: int = 0


@dataclass(frozen=True)
class ModelShape:
    """A decoder-only transformer.

    Parameters
    ----------
    layers, hidden, ffn, heads, kv_heads, vocabulary
        Its sizes [-]; ``kv_heads`` is that of grouped queries, ``ffn`` that of layers without experts.
    gated
        Whether the feed-forward part has a gate: three matrices instead of two.
    tied
        Whether input and output share one table of embeddings.
    head
        Width of a head [-]; 0 for hidden / heads.
    experts, latent
        Mixture of experts, and latent attention, where it has them.
    window, windowed
        Tokens that layers with sliding-window attention look back on, and how many of the layers have it [-].
    recurrent, state
        Layers with linear attention, and the numbers that each keeps of a sequence instead of keys and values [-].
    mixer
        What recurrent layers have instead of attention; without it, the same projections as attention.
    output_gate
        Whether a gate as wide as all heads multiplies the output of attention (Qwen3-Next).
    lora, lora_everywhere
        Rank of low-rank adapters in addition to frozen weights, 0 where all weights are trained [-]; whether
        feed-forward parts have them too, and not attention alone.
    depths
        Modules that predict tokens further ahead (arXiv 2412.19437, section 2.2): each one more layer, a joining
        matrix of 2 h x h, and one more pass through the logits [-].
    title, source
        What it is called in full, and where its numbers come from.

    Notes
    -----
    Biases and norms are left out: 13 h of 12 h^2 parameters of a layer, a thousandth for h = 12,288.
    """

    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    vocabulary: int
    gated: bool
    tied: bool = False
    head: int = 0
    experts: Experts | None = None
    latent: LatentAttention | None = None
    window: int = 0
    windowed: int = 0
    recurrent: int = 0
    state: int = 0
    mixer: StateSpace | None = None
    output_gate: bool = False
    depths: int = 0
    lora: int = 0
    lora_everywhere: bool = False
    title: str = ""
    source: str = ""

    @cached_property
    def matrices(self) -> int:
        """Matrices of a feed-forward part, nu [-]."""
        return 3 if self.gated else 2

    @cached_property
    def head_width(self) -> float:
        """Width as stated, or hidden state over heads [-]."""
        return self.head or self.hidden / self.heads

    def _mean(self, plain: float, recurrent: float) -> float:
        """Return the mean over layers with attention and those with a state space."""
        return plain + (recurrent - plain) * self.recurrent / self.layers

    @cached_property
    def attention_parameters(self) -> float:
        """Parameters of the attention of one layer, or of what it has in its place, their mean [-]."""
        h, a = self.hidden, self.heads
        low = self.latent
        if low is None:
            plain = h * (self.qkv_width + a * self.head_width)
            return self._mean(plain, self.mixer.parameters(h)) if self.mixer is not None else plain
        queries = h * low.query_rank + low.query_rank * a * (low.head + low.rotary)
        keys_values = h * (low.kv_rank + low.rotary) + low.kv_rank * a * (low.head + low.value)
        return queries + keys_values + a * low.value * h

    @cached_property
    def qkv_width(self) -> float:
        """Widths of queries, keys, values and the output gate over all heads, without latent attention [-]."""
        return ((2 if self.output_gate else 1) * self.heads + 2 * self.kv_heads) * self.head_width

    @cached_property
    def expanding(self) -> float:
        """Parameters of a layer with which latent attention expands queries, keys and values [-]."""
        low = self.latent
        if low is None:
            return 0.0
        return low.query_rank * self.heads * (low.head + low.rotary) + low.kv_rank * self.heads * (low.head + low.value)

    @cached_property
    def attention_width(self) -> float:
        """Widths of keys and values over all heads together: 2 h in the plain case [-]."""
        low = self.latent
        if low is None:
            return 2 * self.heads * self.head_width
        return self.heads * (low.head + low.rotary + low.value)

    @cached_property
    def attention_kept(self) -> float:
        """Values of a token's queries, keys, values and attention output in one layer [-]."""
        low = self.latent
        if low is None:
            gate = 2 * self.heads if self.output_gate else 0  # and the output before it
            plain = (2 * (self.heads + self.kv_heads) + gate) * self.head_width
            return self._mean(plain, self.mixer.kept) if self.mixer is not None else plain
        return 2 * self.heads * (low.head + low.rotary + low.value)

    @cached_property
    def attention_output(self) -> float:
        """Values that the heads of a layer return of a token [-]."""
        plain = self.heads * (self.latent.value if self.latent is not None else self.head_width)
        return self._mean(plain, self.mixer.inner) if self.mixer is not None else plain

    @cached_property
    def scan_flop(self) -> float:
        """FLOP of a token in the state spaces of a mean layer, forward, without their projections [FLOP]."""
        return self._mean(0.0, self.mixer.scan_flop) if self.mixer is not None else 0.0

    @cached_property
    def attention_kept_low(self) -> float:
        """The same where latent attention expands queries, keys and values again [-]."""
        low = self.latent
        if low is None:
            return self.attention_kept
        return low.query_rank + low.kv_rank + low.rotary + self.heads * low.value

    @cached_property
    def kv_width(self) -> float:
        """Widths of what is kept or sent of a token's keys and values, per layer: 2 h k / a in the plain case [-]."""
        low = self.latent
        return 2 * self.kv_heads * self.head_width if low is None else low.kv_rank + low.rotary

    def attended(self, tokens: Amount) -> Amount:
        """Return the tokens of context of some that a mean layer looks at: all, the last in a window, or none [-]."""
        if not self.windowed and not self.recurrent:
            return tokens
        full = self.layers - self.windowed - self.recurrent
        return (full * tokens + self.windowed * np.minimum(tokens, self.window)) / self.layers

    def scored(self, tokens: Amount) -> Amount:
        """Return how long a sequence without windows would be whose unmasked scores are those of a mean layer [-].

        Of n tokens each looks at those before it, n^2 / 2 in all; in a window of w at most w of them, n w - w^2 / 2.
        """
        if not self.windowed and not self.recurrent:
            return tokens
        full = self.layers - self.windowed - self.recurrent
        window = np.minimum(self.window, tokens)
        return (full * tokens + self.windowed * (2 * window - window**2 / tokens)) / self.layers

    @cached_property
    def recurrent_state(self) -> float:
        """Bytes of state that a mean layer keeps of a sequence, at 16 bits [B]."""
        return 2.0 * self.recurrent * self.state / self.layers

    def _feed_forward(self, width: float) -> float:
        """Return the parameters of a feed-forward part [-]."""
        return self.matrices * self.hidden * width

    @cached_property
    def dense_part(self) -> float:
        """Parameters of the feed-forward part of a layer without experts [-]."""
        return self._feed_forward(self.ffn)

    @cached_property
    def shared_part(self) -> float:
        """Parameters of the feed-forward part of a layer with experts that all tokens meet [-]."""
        return self._feed_forward(self.experts.shared) if self.experts is not None else 0.0

    @cached_property
    def dense_layer(self) -> float:
        """Parameters of a layer without experts [-]."""
        return self.attention_parameters + self.dense_part

    @cached_property
    def expert(self) -> float:
        """Parameters of one expert [-]; 0 without experts."""
        return self.matrices * self.expert_hidden * self.experts.ffn if self.experts is not None else 0.0

    @cached_property
    def expert_hidden(self) -> int:
        """Width of a token as experts get it [-]."""
        return (self.experts.latent if self.experts is not None else 0) or self.hidden

    @cached_property
    def common_layer(self) -> float:
        """Parameters of a layer with experts that are not theirs: attention, shared part, router, projections [-]."""
        if self.experts is None:
            return 0.0
        parameters = self.attention_parameters + self.shared_part + self.hidden * self.experts.count
        return parameters + (2 * self.hidden * self.experts.latent if self.experts.latent else 0)

    @cached_property
    def all_layers(self) -> int:
        """Layers, those of MTP heads too [-]."""
        return self.layers + self.depths

    @cached_property
    def expert_layers(self) -> int:
        """Layers with experts, those of MTP heads too [-]."""
        return self.all_layers - self.experts.dense_layers if self.experts is not None else 0

    @cached_property
    def dense_layers(self) -> int:
        """Layers without experts, those of MTP heads too [-]."""
        return self.all_layers - self.expert_layers

    @cached_property
    def embedding(self) -> float:
        """Parameters of one table of embeddings [-]."""
        return float(self.vocabulary * self.hidden)

    @cached_property
    def embeddings(self) -> float:
        """Parameters of the tables of embeddings: one for input and output together, or one for each [-]."""
        return (1 if self.tied else 2) * self.embedding

    @cached_property
    def shared_parameters(self) -> float:
        """Parameters that are not those of experts [-]."""
        parameters = self.dense_layers * self.dense_layer + self.embeddings
        if self.experts is not None:
            parameters += self.expert_layers * self.common_layer
        return parameters + self.depths * 2 * self.hidden**2

    @cached_property
    def expert_parameters(self) -> float:
        """Parameters of all experts [-]."""
        return self.expert_layers * self.experts.count * self.expert if self.experts is not None else 0.0

    @cached_property
    def parameters(self) -> float:
        """All parameters [-]."""
        return self.shared_parameters + self.expert_parameters

    @cached_property
    def active_parameters(self) -> float:
        """Parameters that a token meets, embeddings included [-]."""
        active = self.experts.active if self.experts is not None else 0
        return self.shared_parameters + self.expert_layers * active * self.expert

    def adapters(self, *, experts: bool) -> float:
        """Return the parameters of the adapters of a layer, rank x (inputs + outputs) of each matrix that has one [-].

        Attention: one for queries, keys and values together, one for its output; the same of a feed-forward part, but
        not of experts.
        """
        h, low = self.hidden, self.latent
        inside = self.qkv_width
        if low is not None:
            inside = low.query_rank + self.heads * (low.head + low.rotary) + low.query_rank
            inside += 2 * low.kv_rank + low.rotary + self.heads * (low.head + low.value) + h
        widths = h + inside + self.attention_output + h
        if self.lora_everywhere:
            width = float(self.experts.shared) if experts and self.experts is not None else float(self.ffn)
            widths += (2 * h + self.matrices * width) if width else 0.0
        return self.lora * widths

    @cached_property
    def adapter_parameters(self) -> float:
        """Parameters of all adapters [-]."""
        if not self.lora:
            return 0.0
        dense, mixed = self.adapters(experts=False), self.adapters(experts=True)
        return self.dense_layers * dense + self.expert_layers * mixed

    @cached_property
    def trained_parameters(self) -> float:
        """Parameters that have gradients [-]."""
        return self.adapter_parameters if self.lora else self.parameters

    @cached_property
    def logits_in_layers(self) -> float:
        """Parameters of all products with the vocabulary over those that a token meets in a mean layer [-]."""
        layer = (self.active_parameters - self.embeddings) / self.all_layers
        return (1 + self.depths) * self.embedding / layer


# Floating-point operations of decoder models, and the time of a step that a published MFU implies.


def flop_per_token(shape: ModelShape, sequence: int, *, convention: Literal["causal", "full"] = "causal") -> float:
    r"""Return the model FLOP of one token, forward and backward, without recomputation.

    .. math:: 3 (2 P_a + L s w + 2 h V)

    with the parameters of layers that a token meets P_a, and w the widths of keys and values over all heads (2 h in the
    plain case). The backward pass counts twice the forward pass; a lookup of an embedding counts nothing. Frozen
    weights have no gradients: 2 for 3, and their adapters next to them.

    Parameters
    ----------
    shape, sequence
        The model, and tokens of a sequence [-].
    convention
        ``causal`` counts the half of attention that is not masked, as the Llama 3 report does; ``full`` all of it, as
        PaLM and Megatron do.

    Returns
    -------
    float
        FLOP per token [FLOP].

    References
    ----------
    D. Narayanan et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM", SC 2021,
    arXiv 2104.04473 (operation counts). "The Llama 3 Herd of Models", arXiv 2407.21783, table 4 (convention).
    """
    attention: float = (
        (1 if convention == "causal" else 2) * shape.scored(sequence) * shape.attention_width * shape.all_layers
    )
    attention += shape.scan_flop * shape.layers
    logits = 2 * (1 + shape.depths) * shape.embedding
    if shape.lora:
        frozen = 2 * (2 * (shape.active_parameters - shape.embeddings) + logits)
        return frozen + 3 * (attention + 2 * shape.adapter_parameters)
    return 3 * (2 * (shape.active_parameters - shape.embeddings) + attention + logits)


def step_time_from_mfu(flop_per_step: float, gpus: int, peak: float, mfu: float) -> float:
    """Return the time of a step [s] that does `flop_per_step` [FLOP] on `gpus` of `peak` [FLOP/s] at `mfu` [-].

    ``MFU = model FLOP / (time x GPUs x peak)``, the peak being that of dense matrices at the stated precision.
    """
    return flop_per_step / (gpus * peak * mfu)

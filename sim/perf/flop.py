"""Floating-point operations of decoder models, and the time of a step that a published MFU implies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sim.perf.shape import ModelShape

__all__ = ["flop_per_token", "step_time_from_mfu"]


def flop_per_token(shape: ModelShape, sequence: int, *, convention: Literal["causal", "full"] = "causal") -> float:
    r"""Return the model FLOP of one token, forward and backward, without recomputation.

    .. math:: 3 (2 P_a + L s w + 2 h V)

    with the parameters of layers that a token meets P_a, and w the widths of keys and values over all heads (2 h in the
    plain case). The backward pass counts twice the forward pass; a lookup of an embedding counts nothing.

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
    attention = (1 if convention == "causal" else 2) * sequence * shape.attention_width * shape.all_layers
    logits = 2 * (1 + shape.depths) * shape.embedding
    return 3 * (2 * (shape.active_parameters - shape.embeddings) + attention + logits)


def step_time_from_mfu(flop_per_step: float, gpus: int, peak: float, mfu: float) -> float:
    """Return the time of a step [s] that does `flop_per_step` [FLOP] on `gpus` of `peak` [FLOP/s] at `mfu` [-].

    ``MFU = model FLOP / (time x GPUs x peak)``, the peak being that of dense matrices at the stated precision.
    """
    return flop_per_step / (gpus * peak * mfu)

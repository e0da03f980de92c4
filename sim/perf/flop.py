"""Floating-point operations of dense decoder models, and the time of a step that a published MFU implies."""

from __future__ import annotations

__all__ = ["model_flop_per_token", "step_time_from_mfu"]


def model_flop_per_token(
    *, layers: int, hidden: int, ffn: int, heads: int, kv_heads: int, vocabulary: int, sequence: int, gated: bool
) -> float:
    """Return the FLOP of one token, forward and backward, without recomputation.

    Parameters
    ----------
    layers, hidden, ffn, heads, kv_heads, vocabulary, sequence
        Shape of the model and length of a sequence [-].
    gated
        Whether the feed-forward part has a gate (three matrices instead of two).

    Returns
    -------
    float
        FLOP per token [FLOP]: ``3 (L (2 P + 2 s h) + 2 h V)`` with ``P = h (2 h + 2 h k / a) + nu h f`` weights in a
        layer, nu = 3 with a gate and 2 without. The backward pass counts twice the forward pass. Attention counts
        the causal half, 2 s h per layer and token, as the Llama 3 report does; PaLM's convention counts all of it.

    References
    ----------
    D. Narayanan et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM", SC 2021,
    arXiv 2104.04473 (operation counts). "The Llama 3 Herd of Models", arXiv 2407.21783, table 4 (convention).
    """
    weights = hidden * (2 * hidden + 2 * hidden * kv_heads / heads) + (3 if gated else 2) * hidden * ffn
    forward = layers * (2 * weights + 2 * sequence * hidden) + 2 * hidden * vocabulary
    return 3 * forward


def step_time_from_mfu(flop_per_step: float, gpus: int, peak: float, mfu: float) -> float:
    """Return the time of a step [s] that does `flop_per_step` [FLOP] on `gpus` of `peak` [FLOP/s] at `mfu` [-].

    ``MFU = model FLOP / (time x GPUs x peak)``, the peak being that of dense matrices at the stated precision.
    """
    return flop_per_step / (gpus * peak * mfu)

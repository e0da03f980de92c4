"""What a layer keeps of a token for its backward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sim.perf.shape import ModelShape

__all__ = ["Activations", "activations"]


class Activations(NamedTuple):
    """Bytes of one token in one layer, at 16 bits.

    Parameters
    ----------
    whole
        What each tensor rank holds, unless sequence parallelism divides it too [B].
    divided
        What tensor ranks divide among them [B].
    scores
        Scores of attention, which tensor ranks divide; nothing where attention is fused [B].
    """

    whole: float
    divided: float
    scores: float


def activations(shape: ModelShape, sequence: int, *, experts: bool, selective: bool = False) -> Activations:
    r"""Return the inventory of a layer, with experts or without.

    .. math:: 10 h, \quad 4 (h + h_k) + 2 \nu f, \quad 5 a s

    In the plain case (h_k = h, f = 4 h, nu = 2 matrices) the second is 24 h. Models with gates are trained without
    dropout, whose masks are 2 h of the 10 h. A token that meets several experts is kept once for each, going in and
    coming out.

    Selective recomputation drops the scores. Of models with gates it also drops what costs little to have again: what
    norms return (4 h), the product with the gate (2 f), tokens sorted by expert, and what latent attention expands.

    References
    ----------
    V. Korthikanti et al., "Reducing activation recomputation in large transformer models", arXiv 2205.05198, section 4,
    for the plain case; grouped heads, gates and experts by the same count. arXiv 2412.19437, section 3.2.3, for what
    else is computed again.
    """
    width, copies = float(shape.ffn), 0
    if experts:
        assert shape.experts is not None, "only a model with experts has layers with experts"
        width = shape.experts.shared + shape.experts.active * shape.experts.ffn
        copies = shape.experts.active
    scores = 0.0 if selective else 5.0 * shape.heads * sequence
    if not shape.gated:
        return Activations(
            10 * shape.hidden, 2 * (shape.attention_kept + 2 * width + 2 * copies * shape.hidden), scores
        )
    if selective:
        kept = shape.attention_kept_low + 2 * width + copies * shape.hidden
        return Activations(4 * shape.hidden, 2 * kept, scores)
    kept = shape.attention_kept + 3 * width + 2 * copies * shape.hidden
    return Activations(8 * shape.hidden, 2 * kept, scores)

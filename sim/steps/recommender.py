"""What a step of a recommender costs: lookups in tables of embeddings, their exchange, and the layers above them.

A pair of a user and an item looks up rows of every table; those of a table are added up. The sums make a vector x0,
with what a perceptron makes of dense features. Cross layers follow, x' = x0 (W V x + b) + x with V of low rank, and a
second perceptron.

References
----------
M. Naumov et al., "Deep learning recommendation model for personalization and recommendation systems", arXiv 1906.00091;
R. Wang et al., "DCN V2", WWW 2021, arXiv 2008.13535 (cross layers of low rank).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from sim.steps.serving import BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.steps.hardware import Accelerator, Precision
    from sim.steps.serving import ServingConstants
    from sim.steps.shape import Amount


@dataclass(frozen=True, slots=True)
class Recommender:
    """The shape of a recommender.

    Parameters
    ----------
    title, source
        What it is called, and where its numbers come from.
    rows, lookups
        Rows of each table, and how many of them a pair looks up [-].
    width
        Numbers of a row [-].
    bottom, top
        Widths of the perceptrons, the input of the first included; that of the second is x0 [-].
    cross, rank
        Cross layers, and the rank of their matrices [-].
    """

    title: str
    source: str
    rows: Sequence[int]
    lookups: Sequence[int]
    width: int
    bottom: Sequence[int]
    top: Sequence[int]
    cross: int
    rank: int

    @property
    def interaction(self) -> int:
        """Width of x0 [-]."""
        return (len(self.rows) + 1) * self.width

    @property
    def table_parameters(self) -> int:
        """Parameters of all tables [-]."""
        return sum(self.rows) * self.width

    @property
    def perceptrons(self) -> int:
        """Parameters of both perceptrons, without biases [-]."""
        layers = *pairwise(self.bottom), *pairwise((self.interaction, *self.top))
        return sum(before * after for before, after in layers)

    @property
    def crosses(self) -> int:
        """Parameters of the cross layers, without biases [-]."""
        return self.cross * 2 * self.interaction * self.rank


class RecommenderStep(NamedTuple):
    """The time of a batch by what takes it, one after the other [s]."""

    lookups: Amount
    exchange: Amount
    perceptrons: Amount
    crosses: Amount

    @property
    def total(self) -> Amount:
        """All of it [s]."""
        return sum(self)


def recommend(
    model: Recommender,
    chip: Accelerator,
    constants: ServingConstants,
    batch: Amount,
    *,
    gpus: int = 1,
    link: float | None = None,
    precision: Precision = "fp8",
    interaction: Precision = "fp8",
) -> RecommenderStep:
    """Return the time in which GPUs that share the tables evenly score a batch.

    Parameters
    ----------
    batch
        Pairs of a user and an item, of all GPUs together [-].
    gpus
        GPUs that share one copy of the tables; each scores its part of the batch [-].
    link
        Bandwidth between them, one direction of a GPU [B/s]; without it, what collectives reach of the scale-up links.
    precision, interaction
        Of tables and perceptrons, and of the cross layers; 8-bit integers are as fast as FP8.

    Raises
    ------
    ValueError
        If the tables do not fit into the memory of so many GPUs.

    Notes
    -----
    Lookups of random rows reach a share of the bandwidth that is assumed (`gather`). The element-wise pass of a cross
    layer reads three vectors as wide as x0 and writes one.
    """
    held = model.table_parameters * BYTES[precision]
    if held > gpus * chip.memory:
        rule = f"{held / 1e9:,.0f} GB of tables do not fit into {gpus} x {chip.memory / 1e9:,.0f} GB"
        raise ValueError(f"{model.title}: {rule}; {math.ceil(held / chip.memory)} GPUs would")
    own = batch / gpus
    link = constants.scale_up * chip.scale_up if link is None else link
    read = own * sum(model.lookups) * model.width * BYTES[precision]
    sent = own * len(model.rows) * model.width * BYTES[precision] * (gpus - 1) / gpus
    passed = 4 * own * model.cross * model.interaction * BYTES[interaction]
    return RecommenderStep(
        read / (constants.gather * chip.memory_bandwidth),
        sent / link,
        2 * own * model.perceptrons / (constants.gemm[precision] * chip.peak[precision]),
        2 * own * model.crosses / (constants.gemm[interaction] * chip.peak[interaction])
        + passed / (constants.memory[chip.generation] * chip.memory_bandwidth),
    )

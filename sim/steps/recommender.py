"""The cost of a step of a recommender: lookups in tables of embeddings, their exchange, and the layers above them.

A pair of a user and an item looks up rows of every table; those of a table are added up. The sums make a vector x0,
with what a perceptron makes of dense features. Cross layers follow, x' = x0 (W V x + b) + x with V of low rank, and a
second perceptron. Lookups of random rows reach a share of the bandwidth that is assumed (`gather`).

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

from ettrick.sim.steps.serving import BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ettrick.sim.steps.hardware import Accelerator, Precision
    from ettrick.sim.steps.serving import ServingConstants
    from ettrick.sim.steps.shape import Amount


@dataclass(frozen=True, slots=True)
class Recommender:
    """The shape of a recommender.

    Parameters
    ----------
    title, source
        What it is called, and where its numbers come from.
    rows, lookups, width
        Rows of each table, how many of them a pair looks up, and numbers of a row [-].
    bottom, top
        Widths of the perceptrons, that of its input first; the input of the second is x0 [-].
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
        If the tables do not fit into the memory of so many GPUs, or these do not have a precision.
    """
    _check(model, chip, gpus, precision, interaction)
    samples, x0 = batch / gpus, (len(model.rows) + 1) * model.width
    link = constants.scale_up * chip.scale_up if link is None else link
    read = samples * sum(model.lookups) * model.width * BYTES[precision]
    sent = samples * len(model.rows) * model.width * BYTES[precision] * (gpus - 1) / gpus
    layers = sum(before * after for before, after in (*pairwise(model.bottom), *pairwise((x0, *model.top))))
    # The element-wise pass of a cross layer reads three vectors as wide as x0 and writes one.
    passed = 4 * samples * model.cross * x0 * BYTES[interaction] / chip.memory_bandwidth
    crossed = 2 * samples * model.cross * 2 * x0 * model.rank / (constants.gemm[interaction] * chip.peak[interaction])
    products = 2 * samples * layers / (constants.gemm[precision] * chip.peak[precision])
    return RecommenderStep(read / (constants.gather * chip.memory_bandwidth), sent / link, products, crossed + passed)


def _check(model: Recommender, chip: Accelerator, gpus: int, precision: Precision, interaction: Precision) -> None:
    """Refuse precisions that the GPUs do not have, and tables that do not fit into them."""
    for name in (precision, interaction):
        if name not in chip.peak:
            raise ValueError(f"the catalog has no {name} peak of {chip.title} (it has {', '.join(chip.peak)})")
    table_bytes = sum(model.rows) * model.width * BYTES[precision]
    if table_bytes > gpus * chip.memory:
        rule = f"{table_bytes / 1e9:,.0f} GB of tables do not fit into {gpus} x {chip.memory / 1e9:,.0f} GB"
        raise ValueError(f"{model.title}: {rule}; {math.ceil(table_bytes / chip.memory)} GPUs would")

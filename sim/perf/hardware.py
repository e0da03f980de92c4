"""What a step runs on: an accelerator by the numbers of its data sheet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PRECISIONS", "Accelerator", "NodePower", "Precision"]

Precision: TypeAlias = Literal["bf16", "fp8", "mxfp8", "nvfp4"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
"""Arithmetic of the matrix products of a step."""


@dataclass(frozen=True, slots=True)
class NodePower:
    """What one node draws, accelerators, hosts, NICs and fans together.

    Parameters
    ----------
    idle, training
        Powered without work, and stepping [W].
    gpus
        Accelerators of that node [-].
    measured
        Whether somebody put a meter on it; else it is an estimate from the boards' power.
    source
        Who says so.
    """

    idle: float
    training: float
    gpus: int
    measured: bool
    source: str


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One accelerator.

    Parameters
    ----------
    title, source
        What it is called in full, and where its numbers come from.
    generation
        Whose measured efficiencies it shares.
    peak
        Dense peak by precision [FLOP/s]; a precision that it does not have is not there.
    memory, memory_bandwidth
        Device memory [B], and its bandwidth [B/s].
    scale_up
        Bandwidth of its scale-up links, one direction [B/s].
    power
        Board power [W]; ``None`` where it is not published.
    node
        What a node of it draws; ``None`` where nothing is published.
    matmul
        Best measured matrix product by precision [FLOP/s], where somebody has measured.
    announced
        Whether its numbers are those of an announcement, or of somebody's thoughts.
    """

    title: str
    source: str
    generation: str
    peak: Mapping[str, float] = field(hash=False)
    memory: float
    memory_bandwidth: float
    scale_up: float
    power: float | None = None
    node: NodePower | None = None
    matmul: Mapping[str, float] = field(default_factory=dict, hash=False)
    announced: bool = False

"""The numbers of the step model that no data sheet gives: fitted to measured steps, or from textbooks."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Constants", "Efficiencies"]


@dataclass(frozen=True, slots=True)
class Efficiencies:
    """Shares of the peak that an accelerator reaches at one precision.

    Parameters
    ----------
    gemm
        Matrix products at the precision of the step, of that precision's peak [-].
    logits
        The product with the vocabulary, which stays at 16 bits, of the 16-bit peak [-].
    attention
        The core of attention, which stays at 16 bits, of the 16-bit peak [-].
    sigma
        Standard deviation of the logarithm of predicted over measured step times [-].
    basis
        What they rest on: ``fitted``; ``assumed``, from another precision; ``peak only``, from a data sheet and at most
        a benchmark of matrix products.
    """

    gemm: float
    logits: float
    attention: float
    sigma: float
    basis: str


@dataclass(frozen=True, slots=True)
class Constants:
    """What holds for all accelerators.

    Parameters
    ----------
    touches
        Times that each byte of the inventory of activations is read or written per pass [-].
    score_touches
        The same for the scores of attention that is not fused [-].
    weight_reads
        Times that a pass reads the weights of a layer from memory [-].
    launch
        Time of a layer and pass in which the GPU waits for its host [s].
    scale_up, network
        Shares of the links' bandwidth that collectives reach [-].
    latency
        Start of a collective inside a domain [s].
    tensor_hidden, context_hidden, expert_hidden, handover_hidden
        Shares of the traffic that run beside computing [-]; of tensors where that is switched on, of the pipeline
        where it is interleaved.
    data_floor, shard_floor
        Shares of data-parallel traffic that are never hidden: gradients, and sharded parameters [-].
    data_cover, shard_cover
        What it can hide behind: times the work of one microbatch on a stage, share of the whole pipeline [-].
    memory
        Share of the memory's bandwidth that the optimizer and reads of weights reach [-].
    optimizer
        Bytes that the optimizer moves for each parameter [B].
    expert_gemm
        Efficiency of experts' matrix products relative to dense ones [-].
    expert_launch
        What experts add to the launch time of a layer and pass: routing, sorting tokens, many small kernels [s].
    overhead
        Time of a step that belongs to no layer [s].
    """

    touches: float = 2.0
    score_touches: float = 1.5
    weight_reads: float = 1.0
    launch: float = 40e-6
    scale_up: float = 0.70
    network: float = 0.85
    latency: float = 15e-6
    tensor_hidden: float = 0.5
    context_hidden: float = 0.9
    expert_hidden: float = 0.5
    handover_hidden: float = 0.5
    data_floor: float = 0.05
    shard_floor: float = 0.2
    data_cover: float = 1.0
    shard_cover: float = 0.8
    memory: float = 0.8
    optimizer: float = 30.0
    expert_gemm: float = 0.8
    expert_launch: float = 0.5e-3
    overhead: float = 30e-3

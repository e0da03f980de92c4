"""Parameters, operation counts, and what a GPU and a checkpoint hold, beside what publishers print."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from analysis.validation.row import Estimate
from sim.catalog import models
from sim.steps import Workload, checkpoint_size, flop_per_token, memory_use

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from analysis.validation.lab import Lab

_GIB = 2.0**30


def token_flop(_: Lab, __: int, model: str, depths: int = 0) -> Estimate:
    """Return the FLOP of a token of a model with experts at 4,096 tokens [GFLOP], half of attention counted."""
    return Estimate(flop_per_token(replace(models()[model], depths=depths), 4096) / 1e9)


def training_flop(_: Lab, __: int, model: str, tokens: float) -> Estimate:
    """Return the FLOP of a whole training, attention left out, as publishers count them [FLOP]."""
    return Estimate(tokens * flop_per_token(models()[model], 0))


def parameters(_: Lab, __: int, model: str, active: bool = False) -> Estimate:
    """Return the parameters of a model, or those that a token meets [10^9]; without modules for further tokens."""
    shape = replace(models()[model], depths=0)
    return Estimate((shape.active_parameters if active else shape.parameters) / 1e9)


def checkpoint_gib(_: Lab, __: int, model: str) -> Estimate:
    """Return the size of a checkpoint [GiB]."""
    return Estimate(checkpoint_size(models()[model]) / _GIB)


def gpu_memory(
    _: Lab, __: int, model: str, layout: tuple[int, int, int, int], part: Literal["state", "activations"], saves: bool
) -> Estimate:
    """Return what a GPU holds of a Megatron model [GiB], its layers only.

    Parameters
    ----------
    layout
        Tensor and pipeline ranks, pieces of a stage, and sequences of a microbatch.
    part, saves
        Parameters with gradients and optimizer, or activations; with sequence parallelism and selective recomputation,
        or without both.
    """
    tensor, pipeline, virtual, microbatch = layout
    use = memory_use(
        Workload(
            shape=replace(models()[model], vocabulary=0),
            sequence=2048,
            sequences=4 * pipeline * microbatch,
            microbatch=microbatch,
            tensor=tensor,
            pipeline=pipeline,
            virtual=virtual,
            sharding="none",
            recompute="selective" if saves else "none",
            sequence_parallel=saves,
            fused_attention=False,
        )
    )
    found = use.activations if part == "activations" else use.weights + use.gradients + use.optimizer
    return Estimate(found / _GIB)


MEASURES: Mapping[str, Callable[..., Estimate]] = {
    "checkpoint_gib": checkpoint_gib,
    "gpu_memory": gpu_memory,
    "parameters": parameters,
    "token_flop": token_flop,
    "training_flop": training_flop,
}

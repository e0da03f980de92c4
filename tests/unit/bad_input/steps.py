"""Steps that cannot be: models, layouts and executions that do not go together."""

from __future__ import annotations

from tests.unit.bad_input import Bad, bad

SMALL = "{layers: 24, hidden: 2048, ffn: 8192, heads: 16, vocabulary: 32000}"

EXPERTS = SMALL.replace("}", ", experts: {count: 12, active: 2, ffn: 1024}}")

LAYOUT = "tensor: 4, pipeline: 4, data: 4"

BATCH = "tokens: 262144, sequence: 2048"

"""128 sequences."""


def step(*fragments: str, model: str = SMALL, batch: str = BATCH, layout: str = LAYOUT, more: str = "") -> Bad:
    """Return a scenario whose job on 64 GPUs has no measured step; § stands where the message must point."""
    described = f"gpus: 64, model: {model}, batch: {{{batch}}}, parallelism: {{{layout}}}{more}"
    return bad({5: f"  - {{name: train, {described}}}"}, *fragments)


LAYOUTS = [
    step(
        "jobs.0.parallelism.tensor: 16 attention heads do not divide by 32; nearest: 16", layout="tensor: §32, data: 2"
    ),
    step(
        "jobs.0.parallelism.tensor: 24 attention heads do not divide by 16; nearest: 12 or 24",
        model=SMALL.replace("heads: 16", "heads: 24").replace("2048", "3072"),
        layout="tensor: §16, data: 4",
    ),
    step(
        "jobs.0.parallelism.data: 100 sequences do not divide by 8 replicas; nearest: 5 or 10",
        batch="tokens: 204800, sequence: 2048",
        layout="tensor: 8, data: §8",
    ),
    step(
        "jobs.0.parallelism.context: sequences of 100 tokens do not divide into 2 x 8 chunks; nearest: 5 or 10",
        batch="tokens: 12800, sequence: 100",
        layout="tensor: 8, context: §8",
    ),
    step(
        "jobs.0.parallelism.pipeline: 32 stages are more than the 24 layers of the model",
        layout="pipeline: §32, data: 2",
    ),
    step(
        "jobs.0.parallelism.virtual_pipeline: 24 layers, embedding and logits are fewer than 4 stages x 8; nearest: 6",
        layout=f"{LAYOUT}, virtual_pipeline: §8",
    ),
    step(
        "jobs.0.parallelism.first_stage_layers: leaves fewer than 3 of 24 layers to the other 3 stages; nearest: 21",
        layout=f"{LAYOUT}, first_stage_layers: §22",
    ),
    step(
        "jobs.0.execution.offload_layers: recompute: full keeps no activations to offload",
        more=", execution: {recompute: full, offload_layers: §2}",
    ),
    step(
        "jobs.0.execution.recompute_layers: is for recompute: full",
        more=", execution: {recompute: [norm], recompute_layers: §2}",
    ),
    step(
        "jobs.0.software: flash-attention-1 is published on ampere, not on hopper; state the shares instead",
        more=", software: §flash-attention-1",
    ),
    step(
        "jobs.0.parallelism.expert_tensor: 3 GPUs do not divide tensor 4; nearest: 2 or 4",
        model=EXPERTS,
        layout=f"{LAYOUT}, expert_tensor: §3",
    ),
    step(
        "jobs.0.parallelism.virtual_pipeline: a pipeline of one stage has nothing to interleave",
        layout="tensor: 8, data: 8, virtual_pipeline: §2",
    ),
    step(
        "jobs.0.parallelism.virtual_pipeline: schedule zero-bubble-h1 does not interleave; use 1f1b",
        layout=f"{LAYOUT}, virtual_pipeline: §2",
        more=", execution: {schedule: zero-bubble-h1}",
    ),
    step(
        "jobs.0.parallelism.virtual_pipeline: interleaving takes rounds of 4 microbatches or more, and a replica has 2",
        batch="tokens: 16384, sequence: 2048",
        layout=f"{LAYOUT}, virtual_pipeline: §2",
    ),
    step("jobs.0.parallelism.expert: the model has no experts to spread", layout="tensor: 8, data: 8, expert: §2"),
    step(
        "jobs.0.parallelism.expert: 12 experts of a layer do not divide by 8; nearest: 4",
        model=EXPERTS,
        layout="tensor: 8, data: 8, expert: §8",
    ),
]

EXECUTIONS = [
    step(
        "jobs.0.execution.microbatch: 32 sequences of a replica do not divide into microbatches of 3; nearest: 2 or 4",
        more=", execution: {microbatch: §3}",
    ),
    step("jobs.0.execution.microbatch: must be above 0, not 0", more=", execution: {microbatch: §0}"),
    step(
        "jobs.0.execution.shard_ranks: 8 ranks that reduce gradients together do not divide by 3; nearest: 2 or 4",
        layout="tensor: 8, data: 8",
        more=", execution: {sharding: parameters, shard_ranks: §3}",
    ),
    step(
        "jobs.0.execution.shard_ranks: is for sharding: parameters; with sharding: optimizer all replicas divide",
        more=", execution: {shard_ranks: §2}",
    ),
    step(
        "jobs.0.execution.expert_imbalance: has no effect where expert_capacity drops or pads each expert's tokens",
        model=EXPERTS,
        more=", execution: {expert_imbalance: §1.3, expert_capacity: 1.25}",
    ),
    step(
        "jobs.0.execution.expert_imbalance: the model has no experts to spread",
        more=", execution: {expert_imbalance: §1.3}",
    ),
    step(
        "jobs.0.execution.expert_imbalance: must be at least 1, not 0.5",
        model=EXPERTS,
        more=", execution: {expert_imbalance: §0.5}",
    ),
    step(
        "jobs.0.parallelism.ulysses: 8 context ranks do not divide by 3; nearest: 2 or 4",
        layout="context: 8, data: 8, ulysses: §3",
    ),
    step(
        "jobs.0.parallelism.ulysses: 2 attention heads of a tensor rank do not divide by 4; nearest: 2",
        layout="tensor: 8, context: 8, ulysses: §4",
    ),
    step("jobs.0.lora.rank: must be above 0, not 0", more=", lora: {rank: §0}"),
    step(
        "jobs.0.execution.schedule: '2f2b' is not a choice (choose from 1f1b, zero-bubble-h1, zero-bubble-h2)",
        more=", execution: {schedule: §2f2b}",
    ),
    step(
        "jobs.0.execution.recompute: 'all' is not a choice (choose from none, selective, full)",
        more=", execution: {recompute: §all}",
    ),
    step(
        "jobs.0.execution.micro_batch: unknown key 'micro_batch'; did you mean 'microbatch'?",
        more=", execution: {§micro_batch: 2}",
    ),
    step("jobs.0.precision: the catalog has no mxfp8 peak of h100 (it has bf16, fp8)", more=", precision: §mxfp8"),
]

MODELS = [
    step("jobs.0.model: unknown model 'llama3-450b'; did you mean 'llama3-405b'?", model="§llama3-450b"),
    step("jobs.0.model.layers: must be above 0, not 0", model=SMALL.replace("24", "§0")),
    step("jobs.0.model.layer: unknown key 'layer'; did you mean 'layers'?", model=SMALL.replace("layers", "§layer")),
    step("jobs.0.model.ffn: is missing", model="§" + SMALL.replace("ffn: 8192, ", "")),
    step("jobs.0.model.kv_heads: 16 heads do not share 5", model=SMALL.replace("heads: 16", "heads: 16, kv_heads: §5")),
    step(
        "jobs.0.model.hidden: 2048 is not a whole number of 12 heads",
        model=SMALL.replace("heads: 16", "heads: 12").replace("2048", "§2048"),
    ),
    step(
        "jobs.0.model.experts.active: a token meets 13 of 12 experts", model=EXPERTS.replace("active: 2", "active: §13")
    ),
    step(
        "jobs.0.model.experts.dense_layers: 100 layers without experts leave none of 24 layers to have them",
        model=EXPERTS.replace("active: 2", "active: 2, dense_layers: §100"),
    ),
    step("jobs.0.model: must be a mapping", model="§3"),
    step(
        "jobs.0.model.experts.ffn: is missing",
        model=EXPERTS.replace("experts: {", "experts: §{").replace(", ffn: 1024", ""),
    ),
    bad(
        {
            2: "cluster: {nodes: 16, accelerator: §h10, fabric: {leaf: {nodes: 4}}}",
            5: f"  - {{name: train, gpus: 64, model: {SMALL}, batch: {{{BATCH}}}, parallelism: {{{LAYOUT}}}}}",
        },
        "cluster.accelerator: unknown accelerator 'h10'; did you mean 'h100'?",
    ),
]

CALIBRATIONS = [
    step(
        "jobs.0.calibration: give calibration or a measured step of this very job (step_time, mfu), not both",
        more=", step_time: 3 s, calibration: §{step_time: 3 s}",
    ),
    bad(
        {5: "  - {name: train, gpus: 64, calibration: §{step_time: 3 s}}"},
        "jobs.0.calibration: scales what the step-time model says, and that lacks model and batch and parallelism",
    ),
    step("jobs.0.calibration.step_time: is missing (The measured step time", more=", calibration: §{}"),
    step("jobs.0.calibration.step_time: must be above 0", more=", calibration: {step_time: §0 s}"),
    step(
        "jobs.0.calibration.parallelism.tensor: 16 attention heads do not divide by 32; nearest: 16",
        more=", calibration: {step_time: 3 s, parallelism: {tensor: §32}}",
    ),
    step(
        "jobs.0.calibration.execution.microbatch: 32 sequences of a replica do not divide into microbatches of 5",
        "nearest: 4 or 8",
        more=", calibration: {step_time: 3 s, execution: {microbatch: §5}}",
    ),
    step(
        "jobs.0.calibration.batch.tokens: 10000 tokens are not a whole number of sequences of 2048 tokens",
        more=", calibration: {step_time: 3 s, batch: {tokens: §10000, sequence: 2048}}",
    ),
]

CASES = [*LAYOUTS, *EXECUTIONS, *MODELS, *CALIBRATIONS]

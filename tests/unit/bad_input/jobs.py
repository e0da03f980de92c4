"""Jobs that cannot be."""

from __future__ import annotations

from tests.unit.bad_input import bad

CASES = [
    bad(
        {5: "  - {name: train, gpus: 64, parallelism: §{tensor: 8, data: 4}}"},
        "jobs.0.parallelism: multiplies to 32 GPUs (tensor 8 x context 1 x pipeline 1 x data 4)",
        "but the job asks for 64",
    ),
    bad(
        {5: "  - {name: train, gpus: §256}"},
        "jobs.0.gpus: asks for 256 GPUs, but the cluster has 128; set cluster.nodes to 34 or more",
    ),
    bad(
        {5: "  - {name: train, gpus: §60}"},
        "jobs.0.gpus: 60 GPUs are not a whole number of nodes of 8; nearest: 56 or 64",
    ),
    bad(
        {5: "  - {name: train, gpus: §128}"},
        "jobs.0.gpus: needs 16 nodes, but of the cluster's 16 nodes 2 are kept as hot spares",
    ),
    bad({5: "  - {name: train, gpus: §0}"}, "jobs.0.gpus: must be above 0, not 0"),
    bad(
        {5: "  - {name: a, gpus: 8}\n  - {name: b, gpus: 8}\n  - {name: §a, gpus: 8}"},
        "jobs.2.name: 'a' is also the name of jobs.0",
    ),
    bad({4: "jobs: §[]", 5: ""}, "jobs: give at least one job, a stream of them (streams) or a service (services)"),
    bad({5: "  - {name: train, gpus: 64, step_time: 10 s, mfu: §0.4}"}, "jobs.0.mfu: give step_time or mfu, not both"),
    bad(
        {5: "  - {name: train, gpus: 64, mfu: §0.4, model: llama3-405b}"},
        "jobs.0.mfu: needs model and batch",
        "(missing: batch)",
    ),
    bad(
        {5: "  - {name: train, gpus: 64, mfu: §0, model: llama3-405b, batch: {tokens: 8192, sequence: 8192}}"},
        "jobs.0.mfu: must be above zero",
    ),
    bad({5: "  - {name: train, gpus: 64, step_time: §0 s}"}, "jobs.0.step_time: must be above zero"),
    bad(
        {5: "  - {name: train, gpus: 64, batch: {tokens: §10000, sequence: 8192}}"},
        "jobs.0.batch.tokens: 10000 tokens are not a whole number of sequences of 8192 tokens",
    ),
    bad(
        {5: "  - {name: train, gpus: 64, step_time: 10 s, work: §{steps: 10, time: 1 d}}"},
        "jobs.0.work: give exactly one of tokens, steps and time, above zero (given: steps, time)",
    ),
    bad(
        {5: "  - {name: train, gpus: 64, work: §{time: 0 s}}"},
        "jobs.0.work: give exactly one of tokens, steps and time, above zero (given: none)",
    ),
    bad(
        {5: "  - {name: train, gpus: 64, work: §horizont}"},
        "jobs.0.work: 'horizont' is not a choice; did you mean 'horizon'?",
    ),
    bad(
        {5: "  - {name: train, gpus: 64, work: §1000}"},
        "jobs.0.work: must be a mapping (keys: tokens, steps, time), not 1000",
    ),
    bad(
        {5: "  - {name: train, gpus: 64, step_time: 10 s, work: {tokens: §15 T}}"},
        "jobs.0.work.tokens: work in tokens needs batch",
    ),
    bad(
        {5: "  - {name: train, gpus: 64, work: §{steps: 1000}}"},
        "jobs.0.work: work in tokens or steps needs the time of a step: give step_time, mfu, or a model",
    ),
    bad({5: "  - {name: train, gpus: 64, deadline: §20 d}"}, "jobs.0.deadline: needs a fixed amount of work"),
]

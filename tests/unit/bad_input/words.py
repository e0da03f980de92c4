"""Unknown keys and words."""

from __future__ import annotations

from tests.unit.bad_input import COMPONENT, RECOVERY_NAMES, TIER, bad

CASES = [
    bad({3: "§horizn: 30 d"}, "horizn: unknown key 'horizn'; did you mean 'horizon'?"),
    bad({5: "  - {name: train, §gpu: 64, step_time: 10 s}"}, "jobs.0.gpu: unknown key 'gpu'; did you mean 'gpus'?"),
    bad(
        {10: TIER + "§intervall: 30 min}]"},
        "checkpoint.tiers.0.intervall: unknown key 'intervall'; did you mean 'interval'?",
    ),
    bad(
        {13: "repair: {time: {use: weibull, shape: 2, §scal: 1 d}}"},
        "repair.time.scal: unknown key 'scal'; did you mean 'scale'?",
        "(choose from use, shape, mean, scale)",
    ),
    bad({2: "cluster: {nodes: 16, §racks: {nodes: 4}}"}, "cluster.racks: unknown key 'racks'; did you mean 'rack'?"),
    bad(
        {2: "cluster: {nodes: 16, fabric: {leaf: {§node: 4}}}"},
        "cluster.fabric.leaf.node: unknown key 'node'; did you mean 'nodes'?",
    ),
    bad({7: COMPONENT + "§rates: 1 per node-day}"}, "failures.0.rates: unknown key 'rates'; did you mean 'rate'?"),
    bad(
        {11: "recovery: {use: hot-spare, §initialise: 4 min}"},
        "recovery.initialise: unknown key 'initialise'; did you mean 'initialize'?",
    ),
    bad(
        {11: "recovery: {use: full-restart, initialize: 4 min, §patience: 1 h}"},
        "recovery.patience: unknown key 'patience' (choose from use, scale, delay, initialize)",
    ),
    bad(
        {12: "spares: {hot: 2, §<<: {hot: 3}}"}, "spares.<<: unknown key '<<' (choose from hot, warm, cold, unit, idle)"
    ),
    bad(
        {7: "  - §{name: node, rate: 6.5 per 1000 node-days}"},
        "failures.0: needs 'use' (choose from component, incident, defect, job, loss-spike, preemption, bug, "
        "maintenance, rollout, replay, ",
    ),
    bad(
        {7: "  - {use: §componet, name: node, rate: 1 per node-day}"},
        "failures.0.use: 'componet' is not a choice; did you mean 'component'?",
    ),
    bad(
        {7: "  - {use: §llama3-table4}"},
        "failures.0.use: 'llama3-table4' is not a choice; did you mean 'llama3-table5'?",
    ),
    bad(
        {2: "cluster: {nodes: 16, fabric: {use: §fattree}}"},
        "cluster.fabric.use: 'fattree' is not a choice; did you mean 'fat-tree'?",
    ),
    bad({9: "checkpoint:\n  use: §tier"}, "checkpoint.use: 'tier' is not a choice; did you mean 'tiers'?"),
    bad(
        {8: "detection: {use: §latencies, time: 5 min}"},
        "detection.use: 'latencies' is not a choice; did you mean 'latency'?",
    ),
    bad(
        {11: "recovery: {use: §hot_spares, initialize: 4 min}"},
        "recovery.use: 'hot_spares' is not a choice; did you mean 'hot-spare'?",
        f"{RECOVERY_NAMES}, ",
    ),
    bad({13: "repair: {use: §simpel, time: 1 d}"}, "repair.use: 'simpel' is not a choice; did you mean 'simple'?"),
    bad({12: "scheduler: {use: §lifo}"}, "scheduler.use: 'lifo' is not a choice; did you mean 'fifo'?"),
    bad(
        {11: "recovery: {use: §[hot-spare], initialize: 4 min}"},
        "recovery.use: ",
        f"(choose from {RECOVERY_NAMES}, ",
    ),
    bad(
        {13: "repair: {time: {use: §log-normal, median: 1 d, sigma: 1}}"},
        "repair.time.use: 'log-normal' is not a choice; did you mean 'lognormal'?",
        "(choose from exponential, weibull, gamma, lognormal, uniform, empirical, fixed, piecewise, mixture)",
    ),
    bad({13: "repair: {time: §{mean: 1 d}}"}, "repair.time: needs 'use' (choose from exponential, weibull,"),
    bad(
        {5: "  - {name: train, gpus: 64, model: §llama3-450b, step_time: 10 s}"},
        "jobs.0.model: unknown model 'llama3-450b'; did you mean 'llama3-405b'?",
    ),
    bad(
        {
            2: "cluster: {nodes: 16, fabric: {leaf: {nodes: 4}}, accelerator: §H1000}",
            5: "  - {name: train, gpus: 64, model: llama3-405b, mfu: 0.4, batch: {tokens: 16 Mi, sequence: 8192}}",
        },
        "cluster.accelerator: unknown accelerator 'H1000'; did you mean 'h100'?",
    ),
    bad(
        {5: "  - {name: train, gpus: 64, step_time: 10 s, precision: §fp16}"},
        "jobs.0.precision: 'fp16' is not a choice",
        "(choose from bf16, fp8, mxfp8, nvfp4)",
    ),
    bad(
        {10: "  tiers: [{mode: §sync, write: 30 s, restore: 1 min, interval: 30 min}]"},
        "checkpoint.tiers.0.mode: 'sync' is not a choice; did you mean 'async'?",
    ),
    bad({12: "initial: §old"}, "initial: 'old' is not a choice", "(choose from new, stationary)"),
    bad(
        {7: COMPONENT + "part: §leef, rate: 1 per leaf-day}"},
        "failures.0.part: unknown part 'leef'; did you mean 'leaf'?",
    ),
    bad({7: COMPONENT + "rate: §1 per host-day}"}, "failures.0.rate: unknown part 'host' (choose from gpu, node,"),
    bad(
        {7: COMPONENT + "part: §flux, law: {use: exponential, mean: 1 year}}"},
        "failures.0.part: unknown part 'flux' (choose from gpu, node,",
    ),
    bad(
        {7: "  - {use: llama3-table5, scale: {§cpuu: 2}}"},
        "failures.0.scale.cpuu: unknown cause 'cpuu'; did you mean 'cpu'?",
    ),
]

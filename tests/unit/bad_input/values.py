"""Values of the wrong type, unit or size."""

from __future__ import annotations

from tests.unit.bad_input import COMPONENT, RECOVERY_NAMES, bad

CASES = [
    bad(
        {11: "recovery: §hot-spare"},
        "recovery: must be a mapping (keys: use, ...), not 'hot-spare'; write {use: hot-spare}",
    ),
    bad({13: "repair: §1 d"}, "repair: must be a mapping (keys: use, ...), not '1 d' (choose from simple, tiers)"),
    bad({12: "spares: §2"}, "spares: must be a mapping (keys: hot, warm, cold, unit, idle), not 2"),
    bad({4: "jobs:", 5: "  §{name: train, gpus: 64}"}, "jobs: must be a list, not a mapping"),
    bad(
        {11: "recovery: {use: hot-spare, initialize: 4 min, pools: §spare}"},
        "recovery.pools: must be a list, not 'spare'; write [spare]",
    ),
    bad({1: "name: §405"}, "name: must be text, not 405; write '405' in quotes"),
    bad({12: "seed: §one"}, "seed: must be a whole number (for example 8), not 'one'"),
    bad({12: "seed: §'7'"}, "seed: must be a whole number (for example 8), not '7'; remove the quotes"),
    bad(
        {5: "  - {name: train, gpus: 64, parallelism: {tensor: §true, data: 64}}"},
        "jobs.0.parallelism.tensor: must be a whole number (for example 8), not true",
    ),
    bad({7: COMPONENT + "rate: 1 per node-day, planned: §no}"}, "failures.0.planned: must be true or false, not 'no'"),
    bad(
        {7: "  - {use: llama3-table5, scale: §double}"},
        "failures.0.scale: must be a number or a mapping (key: value), not 'double'",
    ),
    bad({7: "  - {use: llama3-table5, scale: {cpu: §double}}"}, "failures.0.scale.cpu: must be a number, not 'double'"),
    bad({1: "name: §' '"}, "name: must not be empty"),
    bad(
        {3: ""},
        "horizon: is missing (Simulated time after the warm-up; for example 30 min)",
        place="s.yaml:1:1",
    ),
    bad(
        {11: ""},
        "recovery: is missing (Recovery of a job after a failure; choose 'use' from",
        f"{RECOVERY_NAMES}, ",
        place="s.yaml:1:1",
    ),
    bad({13: "repair: {time: §{use: weibull, mean: 1 d}}"}, "repair.time.shape: is missing (Shape [-]"),
    bad(
        {11: "recovery: §{use: hot-spare}"},
        "recovery.initialize: is missing (From nodes to processes that are ready to restore; a time such as 30 min,",
    ),
    bad({3: "horizon: §30"}, "horizon: '30' needs a unit (for example \"30 min\")"),
    bad({3: "horizon: §30 GB"}, "horizon: 'GB' is a unit of size, not of time"),
    bad({3: "horizon: §30 dais"}, "horizon: unknown unit 'dais'; did you mean 'days'?"),
    bad({13: "repair: {time: §30 m}"}, "repair.time: 'm' is ambiguous (minute or milli?); did you mean 'min'?"),
    bad(
        {2: "cluster: {nodes: 16, fabric: {leaf: {nodes: 4}, nic: §400 gbps}}"},
        "cluster.fabric.nic: unknown unit 'gbps'; did you mean 'GBps' or 'Gbps'?",
    ),
    bad({3: "horizon: §-30 d"}, "horizon: must not be negative"),
    bad({3: "horizon: §0 d"}, "horizon: must be above 0, not '0 d'"),
    bad({3: "horizon: §.inf"}, "horizon: must be a finite number"),
    bad({5: "  - {name: train, gpus: §.nan}"}, "jobs.0.gpus: must be a finite number"),
    bad({7: COMPONENT + "rate: 1 per node-day, scale: §.inf}"}, "failures.0.scale: must be a finite number, not .inf"),
    bad({3: "horizon: §10:30"}, "horizon: '10:30' is not a quantity (for example \"30 min\")"),
    bad({3: "horizon: §50 %"}, "horizon: '%' is a unit of fraction, not of time"),
    bad(
        {7: COMPONENT + "rate: 1 per node-day, interrupts: §1.5}"},
        "failures.0.interrupts: '1.5' is above 1; did you mean '1.5 %'?",
    ),
    bad({5: "  - {name: train, gpus: 64, mfu: §41}"}, "jobs.0.mfu: '41' is above 1; did you mean '41 %'?"),
    bad({5: "  - {name: train, gpus: §64.5}"}, "jobs.0.gpus: '64.5' is not a whole number"),
    bad({5: "  - {name: train, gpus: §64 GB}"}, "jobs.0.gpus: unknown prefix 'GB'"),
    bad(
        {7: COMPONENT + "rate: §6.5}"},
        'failures.0.rate: must be a rate (for example "6.5 per 1000 node-days"), not the number 6.5',
    ),
    bad(
        {7: COMPONENT + "rate: §often}"},
        "failures.0.rate: 'often' is not a rate (for example \"6.5 per 1000 node-days\")",
    ),
]

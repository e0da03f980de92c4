"""Clusters, failures, checkpoints and recoveries that do not fit together."""

from __future__ import annotations

from tests.unit.bad_input import ASYNC, COMPONENT, ELASTIC, TIER, bad

LADDER = "recovery: {use: ladder, rungs: "

REDUNDANT = "recovery: {use: redundant, reconfigure: 10 s, initialize: 4 min, "

NARROW = "recovery: {use: narrow, tensor: 8, launch: 1 min, "

CASES = [
    bad(
        {10: "  tiers: [§{interval: 1 h, write: 1 s, restore: 1 s, shares: all}]"},
        "checkpoint.tiers.0.aggregate: is missing: shares: all needs what the store takes, such as 100 GB/s",
    ),
    bad(
        {10: "  tiers: [{interval: 1 h, aggregate: 1 TB/s, stagger: §true}]"},
        "checkpoint.tiers.0.stagger: is for saves that are in each other's way: needs shares: all",
    ),
    bad(
        {10: "  tiers: [{interval: 1 h, shares: all, aggregate: §0 GB/s}]"},
        "checkpoint.tiers.0.aggregate: must be above 0, not '0 GB/s'",
    ),
    bad({10: "  tiers: §[]"}, "checkpoint.tiers: must have at least 1 item, and has 0"),
    bad(
        {
            10: "  tiers: [{interval: 1 h, write: 1 s, restore: 1 s}, {store: §remote, interval: 2 h, write: 1 s, "
            "restore: 1 s}]"
        },
        "checkpoint.tiers.1.store: 'remote' is there already: give each store once",
    ),
    bad(
        {
            10: "  tiers: [{interval: 1 h, write: 1 s, restore: 1 s}, {store: peer-host, interval: 1 min, write: 1 s, "
            "restore: 1 s, clique: §9}]"
        },
        "checkpoint.tiers.1.clique: is 9 nodes, and the job has 8",
    ),
    bad(
        {10: "  tiers: §[{store: host, interval: 1 min, write: 1 s, restore: 1 s}]"},
        "checkpoint.tiers",
        "has no 'store: remote'",
    ),
    bad(
        {
            5: "  - §{name: train, gpus: 64, step_time: 10 s}",
            10: "  tiers: [{interval: 1 h, write: 1 s, restore: 1 s}, {store: peer, restore: 1 s}]",
        },
        "jobs.0: a store of checkpoints works by replica: give the job parallelism",
    ),
    bad(
        {5: "  - {name: train, gpus: 64, step_time: 10 s, periodic: [{name: eval, every: 1 h, time: §0 s}]}"},
        "jobs.0.periodic.0.time: must be above 0",
    ),
    bad(
        {
            5: "  - {name: train, gpus: 64, step_time: 10 s, periodic: [{name: eval, every: 1 h, time: 1 s}, "
            "{name: §eval, every: 2 h, time: 1 s}]}"
        },
        "jobs.0.periodic.1.name: 'eval' is also the name of an earlier one",
    ),
    bad(
        {5: "  - {name: train, gpus: 64, periodic: [{name: eval, every: §100 steps, time: 1 min}]}"},
        "jobs.0.periodic.0.every: '100 steps' needs the time of a step",
    ),
    bad(
        {7: "  - §{use: loss-spike, name: spike, rate: 1 per job-d}"},
        "failures.0",
        "'spike': a loss spike stays undetected here; give it a detection time",
    ),
    bad(
        {
            5: "  - {name: train, gpus: 64, step_time: 10 s, parallelism: {tensor: 4, data: 16}}",
            11: "recovery: {use: narrow, tensor: §8, launch: 1 min}",
        },
        "recovery.tensor: is 8, but job 'train' has a tensor width of 4",
    ),
    bad(
        {5: "  - {name: train, gpus: 64, step_time: 10 s, parallelism: {data: 64}}", 11: ELASTIC + ", reroute: §true}"},
        "recovery.reroute: needs the step-time model, and job 'train' lacks model and batch",
    ),
    bad(
        {11: REDUNDANT + "redundancy: pairs, overhead: §10 %}"},
        "recovery.overhead: must be at least 50 %: pairs do all work twice",
    ),
    bad(
        {11: REDUNDANT + "redundancy: peers, slowdown: §2}"},
        "recovery.slowdown: is for redundancy: next-stage; this one is peers",
    ),
    bad(
        {
            5: "  - {name: train, gpus: 48, step_time: 10 s, parallelism: {tensor: 16, data: 3}}",
            11: REDUNDANT + "redundancy: §pairs, overhead: 50 %}",
        },
        "recovery.redundancy: pairs needs an even number of replicas; nearest: 2 or 4 (job 'train')",
    ),
    bad(
        {
            5: "  - {name: train, gpus: 64, step_time: 10 s, parallelism: {tensor: 8, data: 8}}",
            11: REDUNDANT + "redundancy: §next-stage}",
        },
        "recovery.redundancy: next-stage needs a second stage on other nodes; nearest: pipeline 2 on whole nodes",
    ),
    bad(
        {
            5: "  - {name: train, gpus: 64, step_time: 10 s, parallelism: {tensor: 8, pipeline: 8}}",
            11: REDUNDANT + "redundancy: §templates}",
        },
        "recovery.redundancy: templates needs a second replica on other nodes; nearest: data 2 on whole nodes",
    ),
    bad({10: TIER + "interval: §yung}]"}, "checkpoint.tiers.0.interval: unknown rule 'yung'", "young, daly, optimal"),
    bad(
        {10: TIER + "interval: §every 0 steps}]"}, "checkpoint.tiers.0.interval: ", "must be a whole number above zero"
    ),
    bad({10: TIER + "interval: §0 s}]"}, "checkpoint.tiers.0.interval: the interval must be longer than zero"),
    bad(
        {5: "  - {name: train, gpus: 64}", 10: TIER + "interval: §every 3 steps}]"},
        "checkpoint.tiers.0.interval: interval 'every 3 steps' needs the time of a step",
    ),
    bad(
        {6: "", 7: "", 10: TIER + "interval: §young}]"},
        "checkpoint.tiers.0.interval: interval 'young' needs a failure rate, and nothing can fail here",
    ),
    bad(
        {10: ASYNC + "interval: §optimal}]"},
        "checkpoint.tiers.0.interval: interval 'optimal' balances",
        "here saves are free",
    ),
    bad(
        {10: "  tiers: [§{mode: blocking, write: 30 s, restore: 1 min, interval: 1 h, stall: 2 s}]"},
        "checkpoint.tiers.0: stall is for mode: async",
    ),
    bad(
        {7: "  - §{use: component, name: node, rate: 1 per node-day, law: {use: exponential, mean: 1 d}}"},
        "failures.0: give exactly one of rate and law",
    ),
    bad({7: "  - §{use: component, name: node}"}, "failures.0: give exactly one of rate and law"),
    bad({7: "  - {use: job, name: bug, rate: §1 per node-day}"}, "failures.0.rate: must be per job, not per node"),
    bad(
        {7: COMPONENT + "law: {use: weibull, shape: §0, mean: 1 year}}"},
        "failures.0.law.shape: must be at least 0.05, not 0",
    ),
    bad(
        {7: COMPONENT + "law: §{use: weibull, shape: 2, mean: 1 d, scale: 1 d}}"},
        "failures.0.law: give exactly one of mean and scale (given: mean, scale)",
    ),
    bad(
        {7: COMPONENT + "law: §{use: weibull, shape: 2}}"},
        "failures.0.law: give exactly one of mean and scale (given: none)",
    ),
    bad(
        {13: "repair: {time: {use: empirical, values: §[0 s]}}"},
        "repair.time.values: give at least one value above zero",
    ),
    bad({13: "repair: {time: §{use: uniform, low: 2 d, high: 1 d}}"}, "repair.time: low must be less than high"),
    bad(
        {13: "repair: {time: §{use: lognormal, median: 12 h, sigma: 10}}"},
        "repair.time: the mean of this law is not finite, or above 1e12 years",
    ),
    bad(
        {7: COMPONENT + "law: {use: piecewise, hazards: [{rate: §0.2 per node-year}]}}"},
        "failures.0.law.hazards.0.rate: a hazard is that of one unit: write '0.2 per year', without 'node'",
    ),
    bad(
        {7: COMPONENT + "law: {use: piecewise, hazards: [{rate: §0.2}]}}"},
        'failures.0.law.hazards.0.rate: must be a rate (for example "0.2 per year"), not the number 0.2',
    ),
    bad(
        {7: COMPONENT + "law: {use: piecewise, hazards: [{until: 3 d, rate: 1 per d}, {rate: §0}]}}"},
        "failures.0.law.hazards.1.rate: the last hazard must be above zero",
    ),
    bad(
        {
            7: COMPONENT + "law: {use: piecewise, hazards: "
            "[{until: 3 d, rate: 1 per d}, {until: §2 d, rate: 0}, {rate: 1 per d}]}}"
        },
        "failures.0.law.hazards.1.until: must be later than the one before it",
    ),
    bad(
        {7: COMPONENT + "law: {use: piecewise, hazards: [{until: §3 d, rate: 1 per d}]}}"},
        "failures.0.law.hazards.0.until: the last hazard has no end: leave out 'until'",
    ),
    bad(
        {7: COMPONENT + "law: {use: piecewise, hazards: [§{rate: 1 per d}, {rate: 2 per d}]}}"},
        "failures.0.law.hazards.0: needs 'until': only the last hazard has no end",
    ),
    bad(
        {13: "repair: {time: {use: mixture, parts: §[{weight: 0.8, law: 1 h}, {weight: 30 %, law: 1 d}]}}"},
        "repair.time.parts: the weights must sum to 1, not to 1.1",
    ),
    bad(
        {13: "repair: {time: {use: mixture, parts: §[{weight: 1, law: 1 h}]}}"},
        "repair.time.parts: must have at least 2 items, and has 1",
    ),
    bad(
        {
            13: "repair: {time: {use: mixture, parts: "
            "[{weight: 0.8, law: 1 h}, {weight: 0.2, law: {use: §mixture, parts: []}}]}}"
        },
        "repair.time.parts.1.law.use: 'mixture' is not a choice (choose from exponential, ",
    ),
    bad(
        {7: "  - §{use: component, name: node, idle_hazard: 0.5, law: {use: weibull, shape: 2, mean: 1 year}}"},
        "failures.0: idle_hazard below 1",
        "clock: busy",
    ),
    bad(
        {7: "  - {use: component, name: node, part: rack, clock: §busy, rate: 1 per rack-year}"},
        "failures.0.clock: ",
        "clock: busy is for parts of one node, and a rack is not one",
    ),
    bad(
        {
            7: "  - §{use: component, name: node, law: {use: weibull, shape: 2, mean: 1 year}}",
            11: "recovery: {use: hot-spare, initialize: 4 min, exposed: false}",
        },
        "failures.0: ",
        "'node' ages in wall time",
        "clock: busy",
    ),
    bad(
        {7: "  - {use: job, name: a, rate: 1 per job-day}\n  - §{use: job, name: a, rate: 2 per job-day}"},
        "failures.1: ",
        "cause 'a' is also one of failures.0",
    ),
    bad({7: "  - §{use: llama3-table5, scale: 0}"}, "failures.0", "scale must be above zero, not 0"),
    bad({7: COMPONENT + "rate: 1 per node-day, scale: §0}"}, "failures.0.scale: must be above 0, not 0"),
    bad(
        {11: "recovery: {use: hot-spare, initialize: 4 min, pools: §[spare]}", 12: "spares: {hot: 0}"},
        "recovery.pools: replacements may come from the spares only, and spares.hot is 0",
    ),
    bad(
        {11: ELASTIC + "}"},
        "jobs.0: recovery 'shrink-rejoin' works by replica: give the job parallelism",
        place="s.yaml:5:5",
    ),
    bad(
        {5: "  - {name: train, gpus: 64, parallelism: {tensor: 4, data: 16}}", 11: ELASTIC + ", min_replicas: §9}"},
        "recovery.min_replicas: is 9, but job 'train' has 8 sets of replicas that can leave on their own (2 share "
        "each host)",
    ),
    bad(
        {5: "  - {name: train, gpus: 64, parallelism: {tensor: 8, data: 8}}", 11: ELASTIC + ", min_replicas: §9}"},
        "recovery.min_replicas: is 9, but job 'train' has 8 replicas",
    ),
    bad({11: LADDER + "§[]}"}, "recovery.rungs: must have at least 1 item, and has 0"),
    bad(
        {11: LADDER + "[{name: a, keeps: §host}]}"},
        "recovery.rungs.0.keeps: 'host' is not a choice; did you mean 'hosts'?",
        "processes, hosts, nothing",
    ),
    bad(
        {11: LADDER + "[{name: a, keeps: hosts, §lanch: 1 min}]}"},
        "recovery.rungs.0.lanch: unknown key 'lanch'; did you mean 'launch'?",
    ),
    bad({11: LADDER + "[{name: a, keeps: hosts, launch: §30}]}"}, "recovery.rungs.0.launch: '30' needs a unit"),
    bad(
        {11: LADDER + "[{name: a, keeps: hosts, launch: {use: §weibul, mean: 1 s}}]}"},
        "recovery.rungs.0.launch.use: 'weibul' is not a choice; did you mean 'weibull'?",
    ),
    bad(
        {11: LADDER + "[{name: a, keeps: hosts, launch: [§{name: b}]}]}"}, "recovery.rungs.0.launch.0.time: is missing"
    ),
    bad(
        {11: LADDER + "[{name: a, keeps: hosts, launch: [{name: b, time: 1 s, faults: [§gpus]}]}]}"},
        "recovery.rungs.0.launch.0.faults.0: 'gpus' is not a choice; did you mean 'gpu'?",
    ),
    bad(
        {11: LADDER + "[{name: a, keeps: hosts, launch: [{name: b, time: 1 s, exponent: §1.36}]}]}"},
        "recovery.rungs.0.launch.0.exponent: needs 'at', the number of GPUs",
    ),
    bad(
        {11: LADDER + "[{name: a, keeps: hosts, launch: [{name: b, time: 1 s, at: §16384}]}]}"},
        "recovery.rungs.0.launch.0.at: needs an 'exponent' above 0",
    ),
    bad(
        {11: LADDER + "[{name: a, keeps: hosts, stop: [{name: b, time: 1 s}, {name: §b, time: 1 s}]}]}"},
        "recovery.rungs.0.stop.1.name: 'b' is also the name of an earlier phase",
    ),
    bad(
        {11: LADDER + "[{name: a, keeps: hosts}, {name: §a, keeps: hosts}]}"},
        "recovery.rungs.1.name: 'a' is also the name of an earlier rung",
    ),
    bad(
        {11: LADDER + "[{name: a, keeps: §nothing}, {name: b, keeps: hosts}]}"},
        "recovery.rungs.0.keeps: can be nothing in the last rung only",
    ),
    bad(
        {11: LADDER + "[{name: a, keeps: nothing, patience: §1 min}]}"},
        "recovery.rungs.0.patience: is for a rung that keeps nodes",
    ),
    bad(
        {11: LADDER + "[{name: a, keeps: hosts, delay: §1 min}]}"},
        "recovery.rungs.0.delay: is for a rung that goes back to the queue (keeps: nothing), not 'hosts'",
    ),
    bad({11: "recovery: {use: hot-spare, initialize: 4 min, scale: §0}"}, "recovery.scale: must be above 0, not 0"),
    bad(
        {11: "recovery: {use: restart-smaller, launch: 1 min}"},
        "jobs.0: recovery 'restart-smaller' works by replica: give the job parallelism",
        place="s.yaml:5:5",
    ),
    bad({11: NARROW + "allowed: [4, §8]}"}, "recovery.allowed.1: must be from 1 to 7: narrower than tensor is"),
    bad(
        {11: NARROW + "allowed: [4], give_up_below: §3}"},
        "recovery.give_up_below: must be from 4, the least width, to 8, which replaces every domain",
    ),
    bad(
        {2: "cluster: {nodes: 16, fabric: §{leaf: {nodes: 4}, radix: 6}}"},
        "cluster.fabric: leaf radix 6 is too small for 4 links down and 4 up",
    ),
    bad({2: "cluster: {nodes: §0, fabric: {leaf: {nodes: 4}}}"}, "cluster.nodes: must be at least 1, not 0"),
]

"""Repairs, planned work, spares, and starts after a long time that are impossible or do not fit together."""

from __future__ import annotations

from tests.unit.bad_input import COMPONENT, Bad, bad

RATE = "rate: 1 per node-day"

TIERS = "repair: {use: tiers, tiers: [{name: reset, time: 1 h, escalates: 0.3}, {name: swap, time: 1 d}]"

ROLLOUT = "{use: rollout, name: driver, nodes_per_day: 4, duration: 1 h, "

NODES = "{use: component, name: node, rate: 1 per node-day}"

LEAVES = "{use: component, name: leaf, part: leaf, rate: 1 per leaf-day}"

RACK = "cluster: {nodes: 16, fabric: {leaf: {nodes: 4}}, rack: {nodes: %d}}"


def tiers(keys: str, *fragments: str) -> Bad:
    """Return a scenario with bad tiers of repair."""
    return bad({13: f"repair: {{use: tiers, {keys}}}"}, *fragments)


def health(keys: str, *fragments: str) -> Bad:
    """Return a scenario whose alarms or checks are bad."""
    return bad({13: f"repair: {{time: 1 d}}\nhealth: {{{keys}}}"}, *fragments)


def parts(keys: str, *fragments: str) -> Bad:
    """Return a scenario whose stock of parts is bad."""
    return bad({13: f"repair: {{time: 1 d}}\nparts: {{{keys}}}"}, *fragments)


def planned(keys: str, *fragments: str) -> Bad:
    """Return a scenario with bad maintenance."""
    return bad({7: f"  - {{use: maintenance, name: firmware, {keys}}}"}, *fragments)


def rollout(keys: str, *fragments: str, source: str = NODES) -> Bad:
    """Return a scenario with a bad rollout beside one cause."""
    return bad({7: f"  - {source}\n  - {ROLLOUT}{keys}}}"}, *fragments)


def spares(line: str, pools: str, *fragments: str, cluster: str = RACK % 4) -> Bad:
    """Return a scenario with spares that do not fit."""
    recovery = f"recovery: {{use: hot-spare, initialize: 4 min, pools: {pools}}}"
    return bad({2: cluster, 11: recovery, 12: f"spares: {line}"}, *fragments)


def stationary(name: str, line: str, reason: str, repair: str = "repair: {time: 1 d}") -> Bad:
    """Return a scenario whose state after a long time nobody knows."""
    rule = f"failures.0: '{name}' has {reason}, of which the stationary state is not known; use a warmup instead"
    return bad({6: "initial: stationary\nfailures:", 7: f"  - §{line}", 13: repair}, rule)


REPAIRS = [
    tiers("tiers: §[]", "repair.tiers: must have at least 1 item, and has 0"),
    tiers(
        "tiers: [{name: reset, time: 1 h, fixes: §0}], qualification: {time: 1 h}",
        "repair.tiers.0.fixes: makes a chain without end",
    ),
    tiers(
        "tiers: [{name: reset, time: 1 h, escalates: §0.5}]",
        "repair.tiers.0.escalates: must be 0 in the last tier: there is nowhere to go on to",
    ),
    tiers("tiers: [{name: reset, time: 1 h, crews: §0}]", "repair.tiers.0.crews: must be at least 1, not 0"),
    tiers("tiers: [{name: reset, time: 1 h, crews: §1.5}]", "must be a whole number"),
    tiers("tiers: [{name: reset, time: 1 h, fixes: §2}]", "repair.tiers.0.fixes: '2' is above 1"),
    tiers(
        "tiers: [{name: reset, time: 1 h}, {name: §reset, time: 2 h}]",
        "repair.tiers.1.name: 'reset' is also the name of an earlier tier",
    ),
    tiers(
        "tiers: [{name: reset, time: 1 h}], lemons_go_to: §retierment",
        "repair.lemons_go_to: must be retirement or a tier (reset), not 'retierment'",
    ),
    tiers(
        "tiers: [{name: reset, time: 1 h}], lemons: [{use: §treshold, failures: 3, window: 7 d}]",
        "repair.lemons.0.use: 'treshold' is not a choice; did you mean 'threshold'?",
    ),
    tiers(
        "tiers: [{name: reset, time: 1 h}], lemons: §{use: threshold, failures: 3, window: 7 d}",
        "repair.lemons: must be a list, not a mapping",
    ),
    bad(
        {7: f"{COMPONENT}{RATE}, tier: §rest}}", 13: f"{TIERS}}}"},
        "failures.0.tier: unknown tier 'rest'; did you mean 'reset'? (choose from reset, swap)",
    ),
    bad(
        {7: f"{COMPONENT}{RATE}, repair: 1 d, tier: §swap}}", 13: f"{TIERS}}}"},
        "failures.0.tier: 'node' has a repair of its own, which goes past the tiers",
    ),
    bad(
        {7: f"{COMPONENT}{RATE}, relapse: {{after: 1 d, probability: §0.3}}}}", 13: f"{TIERS}}}"},
        "failures.0.relapse.probability: 'node': the tiers of repair decide whether a fault is left",
    ),
    bad(
        {7: f"  - §{LEAVES}", 13: f"{TIERS}}}"},
        "failures.0.repair: 'leaf': a leaf does not go through tiers of repair; give the source a repair time",
    ),
    bad(
        {7: f"  - §{NODES}", 13: "# no repair"},
        "failures.0: 'node' has no repair time; give it a repair, or the scenario (repair: {time: 1 d})",
    ),
    bad(
        {7: "  - §{use: component-rates}", 13: "# no repair"},
        "failures.0: 'silent_data_corruption' of component-rates has no repair time; give it a repair, or the scenario",
    ),
    bad(
        {7: "  - §{use: incident, name: rack, part: rack, rate: 1 per rack-day, repaired: part}", 13: f"{TIERS}}}"},
        "failures.0.repair: 'rack': a rack does not go through tiers of repair",
    ),
]

WINDOWS = [
    bad({3: "horizon: 30 d\nwindows: §0 d"}, "windows: must be above 0, not '0 d'"),
    bad(
        {3: "horizon: 30 d\nwindows: §1 ms"},
        "windows: makes 2,592,000,000 windows, and at most 100,000 are kept; at least 26 s",
    ),
]

PLANNED = [
    planned("windows: §[]", "failures.0.windows: must have at least 1 item, and has 0"),
    planned(
        "windows: [{start: 1 d, duration: 4 h, units: 4}, {start: §25 h, duration: 4 h, first: 3}]",
        "failures.0.windows.1.start: overlaps windows.0 in time and in the units that it takes",
    ),
    planned("windows: [{start: 1 d, duration: §0 s}]", "must be above 0, not '0 s'"),
    planned(
        "windows: [§{start: 1 d, duration: 1 h, first: 14, units: 4}]",
        "failures.0.windows.0: goes up to node 17, counted from 0, but there are 16",
    ),
    planned("part: §pduu, windows: [{start: 1 d, duration: 1 h}]", "did you mean 'pdu'?"),
    rollout("hazard: {nod: §0.5}", "failures.1.hazard.nod: unknown cause 'nod'; did you mean 'node'?"),
    rollout(
        "hazard: {node: §0.5}",
        "failures.1.hazard.node: a changed hazard thins 'node', which is right only for a constant rate",
        source="{use: component, name: node, law: {use: weibull, shape: 2, mean: 1 year}}",
    ),
    rollout(
        "hazard: {leaf: §0.5}",
        "failures.1.hazard.leaf: 'leaf' is not a cause of single nodes with a rate",
        source=LEAVES,
    ),
    rollout("hazard: {node: §-1}", "failures.1.hazard.node: must not be negative, not -1"),
    rollout("canary: §{nodes: 2, soak: 1 d}", "failures.1.canary: needs hazard"),
    rollout(
        "hazard: {node: 2}, canary: {nodes: §17, soak: 1 d}",
        "failures.1.canary.nodes: 17 go first, but the cluster has 16 nodes",
    ),
    rollout("mode: §drian", "'drian' is not a choice; did you mean 'drain'?"),
]

SPARES = [
    spares("{hot: 2}", "§[warm]", "recovery.pools: replacements may come from warm only, and there are none"),
    spares("{hot: 2}", "§[warm, cold]", "from warm and cold only, and there are none"),
    spares("{hot: 2}", "[§wram]", "'wram' is not a choice; did you mean 'warm'?"),
    spares("{warm: §3}", "[idle]", "spares.warm: must be a mapping (keys: nodes, delay, one_by_one"),
    spares("{warm: §{nodes: 2}}", "[idle]", "spares.warm.delay: is missing"),
    spares("{hot: 4, unit: §rak}", "[idle]", "spares.unit: unknown part 'rak'; did you mean 'rack'?"),
    spares(
        "{hot: 3, unit: §rack}",
        "[idle]",
        "spares.unit: 16 nodes do not fill 6 units of rack; whole units are needed",
        cluster=RACK % 3,
    ),
    spares(
        "{hot: §2, unit: rack}",
        "[idle]",
        "spares.hot: 2 nodes are not a whole number of units: a rack has 4 nodes; nearest: 4",
    ),
    spares(
        "{warm: {nodes: §2, delay: 1 min}, unit: rack}",
        "[idle]",
        "spares.warm.nodes: 2 nodes are not a whole number of units",
    ),
    bad({13: "repair: {time: 1 d}\nscheduler: {pick: §oldest}"}, "'oldest' is not a choice"),
]

STATIONARY = [
    stationary(
        "swinging",
        f"{{use: component, name: swinging, {RATE}, tempo: {{swings: {{every: 30 d, cv: 1}}}}}}",
        "a hazard that changes in time",
    ),
    stationary(
        "left",
        f"{{use: component, name: left, {RATE}, relapse: {{after: 1 d, probability: 0.2}}}}",
        "faults that repairs leave",
    ),
    stationary("hidden", f"{{use: defect, name: hidden, share: 0.1, {RATE}}}", "faults that repairs leave"),
    stationary("gust", "{use: incident, name: gust, rate: 1 per cluster-day}", "incidents"),
    stationary("tiered", f"{{use: component, name: tiered, {RATE}}}", "tiers of repair", f"{TIERS}}}"),
    stationary(
        "frail",
        f"{{use: component, name: frail, {RATE}, renews: at_return, frailty: {{shape: 1}}}}",
        "nodes that differ and renew at return",
    ),
    stationary(
        "bent",
        "{use: component, name: bent, law: {use: lognormal, median: 1 year, sigma: 1}, frailty: {shape: 1}}",
        "nodes that differ and a law which a hazard ratio does not just rescale",
    ),
]

PREDICTION = "prediction: {recall: 70 %, lead: 5 min"

HEALTH = [
    health(f"{PREDICTION}, precision: §0}}", "precision: must be above 0, such as 1 %"),
    health("checks: {every: 1 d, coverage: §120 %}", "health.checks.coverage: '120 %' is above 1"),
    health(
        "prediction: §{recall: 70 %, lead: 5 min}",
        "health.prediction: give recall and precision, or a score",
    ),
    health(
        "prediction: {recall: 70 %, lead: 5 min, score: §{threshold: 3, separation: 3, every: 1 h}}",
        "health.prediction.score: says recall and precision itself",
    ),
    health(
        "prediction: {recall: 60 %, precision: 85 %, lead: 10 min, faults: §[nic]}",
        "health.prediction.faults: no cause of single nodes has one of these classes; there are host",
    ),
    health("false_alarms: §1 per gpu-day", "health.false_alarms: is per node, not per gpu"),
    bad(
        {7: f"  - {{use: component, name: node, {RATE}, repair: 1 d}}", 13: "health: §{false_alarms: 1 per node-day}"},
        "health: drains healthy nodes: say how long they are away (test: 2 h)",
    ),
]

PARTS = [
    parts("node: §{lead: 14 d}", "parts.node.stock: is missing"),
    parts("nodes: §{stock: 2, lead: 14 d}", "parts.nodes: unknown part 'nodes'; did you mean 'node'?"),
    parts(
        "psu: {stock: 2, lead: 14 d, causes: [§nod]}", "parts.psu.causes.0: unknown cause 'nod'; did you mean 'node'?"
    ),
    parts(
        "node: {stock: 2, lead: 14 d}, psu: {stock: 2, lead: 14 d, causes: [§node]}",
        "repairs of 'node' wait for the part 'node' already",
    ),
    parts("node: {stock: 2, lead: 14 d, reorder: §2}", "parts.node.reorder: must be", "such as 1, not 2"),
    parts("node: {stock: 2, lead: 1 d, price: §5}", "parts.node.price: is part of the cost"),
    parts("node: {stock: 2, lead: 1 d, tier: §swap}", "parts.node.tier: needs repair with tiers"),
    parts(
        "node: {stock: 2, lead: 1 d, causes: [§power-cap]}}\n"
        "power: {idle: 1 W, training: 9 kW, curtail: [{start: 1 h, time: 1 h, cap: 30 kW}]",
        "parts.node.causes.0: 'power-cap' has no repair that could wait for a part",
    ),
    parts("node: {stock: §-1, lead: 1 d}", "parts.node.stock: "),
]

CASES = [*REPAIRS, *WINDOWS, *PLANNED, *SPARES, *STATIONARY, *HEALTH, *PARTS]

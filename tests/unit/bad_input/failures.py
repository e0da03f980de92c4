"""Failure sources that are impossible, or that do not go with the rest of the scenario."""

from __future__ import annotations

from tests.unit.bad_input import COMPONENT, Bad, bad

RATE = "rate: 1 per node-day"

AGEING = "law: {use: weibull, shape: 2, mean: 1 year}"

INCIDENT = "  - {use: incident, name: gust, rate: 1 per cluster-day, "

DEFECT = "  - {use: defect, name: crack, rate: 1 per node-day, "


def part(keys: str, *fragments: str) -> Bad:
    """Return a scenario whose nodes fail in a bad way."""
    return bad({7: f"{COMPONENT}{keys}}}"}, *fragments)


def incident(keys: str, *fragments: str) -> Bad:
    """Return a scenario with a bad incident of the whole cluster."""
    return bad({7: f"{INCIDENT}{keys}}}"}, *fragments)


def defect(keys: str, *fragments: str) -> Bad:
    """Return a scenario with a bad hidden fault."""
    return bad({7: f"{DEFECT}{keys}}}"}, *fragments)


LAWS = [
    part(f"{RATE}, interrupts: §-0.1", "failures.0.interrupts: must not be negative"),
    part(f"{RATE}, interrupts: §1.2", "'1.2' is above 1; did you mean '1.2 %'?"),
    part(f"{RATE}, idle_hazard: §120 %", "failures.0.idle_hazard: '120 %' is above 1"),
    part("law: §0 s", "failures.0.law: must have a mean above zero"),
    part("law: {use: piecewise, hazards: §[]}", "law.hazards: must have at least 1 item, and has 0"),
    part("law: {use: mixture, parts: §[]}", "law.parts: must have at least 2 items, and has 0"),
    part("law: §{use: lognormal, sigma: 1}", "give exactly one of median and mean"),
    part(
        "law: {use: mixture, parts: §[{weight: 0.5, law: 0 s}, {weight: 0.5, law: 0 s}]}",
        "failures.0.law.parts: give at least one part with a mean above zero",
    ),
    part("law: {use: empirical, values: §[]}", "law.values: give at least one value above zero"),
    part(
        f"{RATE}, repair: §{{use: weibull, shape: 0.05, scale: 1000 year}}",
        "failures.0.repair: the mean of this law is not finite, or above 1e12 years",
    ),
]

VARIETY = [
    part(f"{RATE}, frailty: §{{}}", "failures.0.frailty.shape: is missing"),
    part(f"{RATE}, frailty: {{shape: §0}}", "frailty.shape: must be at least 0.05, not 0"),
    part(f"{RATE}, frailty: §0.9", "must be a mapping (keys: shape, of, shared), not 0.9"),
    part(f"{RATE}, frailty: {{shape: 1, of: §gpu}}", "'gpu' is not a choice (choose from node, part)"),
    part(
        f"{RATE}, batches: §[{{share: 60 %, ratio: 2}}, {{share: 0.6, ratio: 3}}]",
        "failures.0.batches: the shares add up to 1.2; together they can be 1 at most",
    ),
    part(f"{RATE}, batches: [§{{share: 0.1}}]", "give exactly one of law and ratio"),
    part(f"{RATE}, batches: [{{share: 0.1, law: §0 s}}]", "failures.0.batches.0.law: must have a mean above zero"),
    part(
        f"{RATE}, idle_hazard: 50 %, batches: [{{share: 0.1, law: §{AGEING[5:]}}}]",
        "failures.0.batches.0.law: idle_hazard below 1 thins the failures",
        "with law 'weibull' let the life run on clock: busy",
    ),
]

TEMPO = [
    part(f"{RATE}, tempo: §{{}}", "give at least one of trend, calendar and swings"),
    part(
        f"{RATE}, tempo: {{§swing: {{every: 30 d, cv: 1}}}}",
        "failures.0.tempo.swing: unknown key 'swing'; did you mean 'swings'?",
    ),
    part(
        f"{RATE}, clock: busy, tempo: §{{swings: {{every: 30 d, cv: 1}}}}",
        "failures.0.tempo: needs clock: wall; on clock: busy there is no date",
    ),
    part(
        f"{RATE}, tempo: {{calendar: {{period: 1 d, factors: §[0, 0]}}}}",
        "failures.0.tempo.calendar.factors: must not be negative, and one must be above zero",
    ),
    part(
        f"{RATE}, tempo: {{swings: {{every: §1 us, cv: 1}}}}",
        "failures.0.tempo.swings.every: ",
        "more than a million stretches",
    ),
    part(
        f"{RATE}, tempo: {{calendar: {{period: §1 ms, factors: [1, 2]}}}}",
        "failures.0.tempo.calendar.period: ",
        "more than a million stretches",
    ),
    bad(
        {7: "  - §{use: infinitehbd, clock: busy}"},
        "failures.0: cause 'gpu' of infinitehbd: tempo: needs clock: wall; on clock: busy there is no date",
    ),
]

RELAPSES = [
    part(f"{RATE}, relapse: {{after: 1 d, probability: §1}}", "probability: must be below 1, not 1"),
    part(f"{RATE}, relapse: §{{probability: 0.3}}", "failures.0.relapse.after: is missing"),
    part(
        f"{RATE}, relapse: §{{after: 1 d}}",
        "failures.0.relapse: 'node': needs a probability; only tiers of repair can do without",
    ),
    bad(
        {7: "  - {use: component, name: l, part: leaf, rate: 1 per day, relapse: §{after: 1 d, probability: 0.3}}"},
        "failures.0.relapse: 'l': it is nodes that relapse, and a leaf is repaired as a whole",
    ),
    part(f"{RATE}, tier: §reset", "failures.0.tier: needs repair with tiers"),
]

EFFECTS = [
    part(f"{RATE}, effect: §slwo", "'slwo' is not a choice; did you mean 'slow'?"),
    part(f"{RATE}, effect: §slow", "failures.0.effect.factor: is missing (Pace relative to a healthy"),
    part(f"{RATE}, effect: {{use: slow, factor: §0}}", "effect.factor: must be above 0, not 0"),
    part(f"{RATE}, effect: {{use: slow, factor: §1.5}}", "effect.factor: '1.5' is above 1"),
    part(f"{RATE}, effect: {{use: crash, §heals: 1 d}}", "unknown key 'heals'"),
    part(
        f"{RATE}, effect: §{{use: degrade, bandwidth: 0.5}}",
        "failures.0.effect: 'node' takes bandwidth, and no job says what share of its step waits for communication",
    ),
    bad(
        {7: "  - {use: job, name: bug, rate: 1 per job-day, effect: §corrupt}"},
        "failures.0.effect: 'corrupt' is not a choice (choose from crash, hang)",
    ),
]

INCIDENTS = [
    bad(
        {7: "  - {use: incident, name: gust, part: §rak, rate: 1 per rack-day}"},
        "failures.0.part: unknown part 'rak'; did you mean 'rack'?",
    ),
    bad(
        {7: "  - {use: incident, name: gust, part: §spine, rate: 1 per spine-day}"},
        "failures.0.part: 'gust': a failed spine stops no node here",
    ),
    bad(
        {7: "  - {use: incident, name: gust, part: rack, rate: 1 per rack-day, size: {mean: 6, least: §5}}"},
        "failures.0.size.least: is 5 nodes, but a rack has 4",
    ),
    incident("size: §{}", "give exactly one of nodes, mean, share and values (given: none)"),
    incident("size: §{nodes: 2, mean: 3}", "nodes, mean, share and values (given: nodes, mean)"),
    incident("size: {mean: §2, least: 3}", "size.mean: 2 nodes are below the least of 3"),
    incident("size: {values: §[0, 3]}", "size.values: an incident takes at least one node, not 0"),
    incident("size: {values: [1, 3], weights: §[1]}", "size.weights: needs one number for each of values"),
    incident("size: {nodes: 2, least: §2}", "size.least: goes with mean or share"),
    incident("size: {share: §0 %}", "failures.0.size.share: must be above 0, not '0 %'"),
    incident("spread: 5 min, repaired: §part", "failures.0.repaired: must be nodes"),
    incident("repaired: part, relapse: §{after: 1 d, probability: 0.2}", "failures.0.relapse: needs repaired: nodes"),
    incident("clock: §busy", "failures.0.clock: must be wall: a cluster serves many jobs, or none"),
]

DEFECTS = [
    bad({7: "  - §{use: defect, name: crack, rate: 1 per node-day}"}, "0.share: is missing"),
    defect("share: §1.5", "failures.0.share: '1.5' is above 1; did you mean '1.5 %'?"),
    defect(
        "share: 0.1, relapse: §{after: 1 d, probability: 0.2}",
        "failures.0.relapse: a hidden fault that a repair leaves strikes again by its own law",
    ),
    defect("share: 0.1, clock: §in_service", "failures.0.clock: must be wall or busy"),
    defect("share: 0.1, onset: §1 per gpu-day", "failures.0.onset: is per node, not per gpu"),
    bad(
        {7: "  - {use: bug, name: b, rate: §1 per gpu-day, fix: 1 d}"}, "failures.0.rate: must be per job, not per gpu"
    ),
    bad({7: "  - §{use: bug, name: b, rate: 1 per job-day}"}, "failures.0.fix: is missing"),
]

CASES = [*LAWS, *VARIETY, *TEMPO, *RELAPSES, *EFFECTS, *INCIDENTS, *DEFECTS]

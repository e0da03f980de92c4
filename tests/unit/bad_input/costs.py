"""Prices that cannot be, that do not go together or that need what nobody knows, and power that no node draws."""

from __future__ import annotations

from tests.unit.bad_input import Bad, bad

OWNED = "capex: 40000, years: 5"

PLAIN = "repair: {time: 1 d}"

TWO = "  - {name: train, gpus: 32, step_time: 10 s}\n  - {name: tune, gpus: 32, step_time: 10 s}"

UNKNOWN = "cluster: {nodes: 16, accelerator: mine, fabric: {leaf: {nodes: 4}}}"


def cost(name: str, described: str, *fragments: str, changes: dict[int, str] | None = None) -> Bad:
    """Return a scenario with bad prices."""
    return bad(f"cost {name}", {13: f"{PLAIN}\ncost: {described}", **(changes or {})}, *fragments)


def power(name: str, described: str, *fragments: str, changes: dict[int, str] | None = None) -> Bad:
    """Return a scenario with bad power."""
    return bad(f"power {name}", {13: f"{PLAIN}\npower: {described}", **(changes or {})}, *fragments)


WAYS = [
    cost(
        "both ways",
        f"{{gpu_hour: §2.5, {OWNED}}}",
        "cost.gpu_hour: is what rented GPUs cost, and capex, years what owned ones do: give one way, not both",
    ),
    cost("rent and energy", "{gpu_hour: §2.5, energy: 0.08}", "and energy what owned ones do"),
    cost("rent and repairs", "{gpu_hour: §2.5, repair: {gpu: 3000}}", "and repair what owned ones do"),
    cost(
        "no way",
        "§{currency: EUR}",
        "cost: give gpu_hour for rented GPUs, or capex and years for owned ones (missing: capex, years)",
    ),
    cost("capex without years", "§{capex: 40000}", "or capex and years for owned ones (missing: years)"),
    cost("years without capex", "§{years: 5, energy: 0.08}", "(missing: capex)"),
]

PRICES = [
    cost("years 0", "{capex: 40000, years: §0}", "cost.years: must be above 0, not 0"),
    cost("negative capex", "{capex: §-1, years: 5}", "cost.capex: must be at least 0, not -1"),
    cost("negative rent", "{gpu_hour: §-2.5}", "cost.gpu_hour: must be at least 0, not -2.5"),
    cost("negative repair", f"{{{OWNED}, repair: {{gpu: §-3}}}}", "cost.repair.gpu: must be at least 0, not -3"),
    cost("price in quotes", "{capex: §'40000', years: 5}", "cost.capex: must be a number, not '40000'; remove the"),
    cost("price with a currency", "{gpu_hour: §2.5 USD}", "cost.gpu_hour: must be a number, not '2.5 USD'"),
    cost("price without end", "{gpu_hour: §.inf}", "cost.gpu_hour: must be"),
    cost("no price", "{gpu_hour: §true}", "cost.gpu_hour: must be a number, not true"),
    cost("repairs as a number", f"{{{OWNED}, repair: §500}}", "cost.repair: must be a mapping (key: value), not 500"),
    cost("no currency", "{gpu_hour: 2.5, currency: §''}", "cost.currency: must not be empty"),
    cost("as a number", "§2.5", "cost: must be a mapping (keys: currency, gpu_hour,"),
    cost("unknown key", "{§gpu_hours: 2.5}", "cost.gpu_hours: unknown key 'gpu_hours'; did you mean 'gpu_hour'?"),
]

NEEDS = [
    cost(
        "unknown part",
        f"{{{OWNED}, repair: {{gpus: §3000}}}}",
        "cost.repair.gpus: unknown part 'gpus'; did you mean 'gpu'?",
    ),
    cost("part that is not there", f"{{{OWNED}, repair: {{switch_tray: §3000}}}}", "unknown part 'switch_tray'"),
    cost(
        "jobs that do not share",
        "§{gpu_hour: 2.5}",
        "cost: is shared by 2 jobs: say how with allocation: requested or allocation: gpus",
        changes={5: TWO},
    ),
    cost(
        "unknown share",
        "{gpu_hour: 2.5, allocation: §gpu}",
        "cost.allocation: 'gpu' is not a choice",
        "did you mean 'gpus'?",
    ),
    cost(
        "energy of unknown nodes",
        f"{{{OWNED}, energy: §0.08}}",
        "cost.energy: needs to know what a node draws, and the catalog does not: give power.idle and power.training",
        changes={2: UNKNOWN},
    ),
]

POWER = [
    power("without a unit", "{switch: §690}", "power.switch: '690' needs a unit (for example \"700 W\")"),
    power("as energy", "{storage: §3 kWh}", "'kWh' is a unit of energy, not of power"),
    power("negative", "{storage: §-3 kW}", "power.storage: must not be negative"),
    power("less than all of it", "{pue: §0.9}", "power.pue: must be at least 1, not 0.9"),
    power("in percent", "{pue: §120 %}", "power.pue: must be a number, not '120 %'"),
    power(
        "idle above training", "{idle: §9 kW, training: 8 kW}", "power.idle: is 9000 W, but training takes only 8000"
    ),
    power(
        "idle above the catalog's",
        "{idle: §9 kW}",
        "power.idle: leaves a node that draws 9000 W idle and 8000 W in training; give idle and training",
    ),
    power("training below the catalog's", "{training: §2 kW}", "power.training: leaves a node that draws 2600 W idle"),
    power(
        "half of unknown nodes",
        "{idle: §2 kW}",
        "power.idle: needs power.training beside it: the catalog does not say what a node of this cluster draws",
        changes={2: UNKNOWN},
    ),
    power("unknown key", "{§puee: 1.1}", "power.puee: unknown key 'puee'; did you mean 'pue'?"),
]

_DAY = "every: 1 d, factors: [1, 2]"

OVER_TIME = [
    power("a cap below idle", "{cap: §50 kW}", "power.cap: is 50 kW, and with all nodes idle it takes"),
    power(
        "a rack below idle", "{rack_cap: §5 kW}", "power.rack_cap: is 5 kW, and with all nodes idle it takes 10.4 kW"
    ),
    power("no cap", "{cap: §0 W}", "power.cap: must be above 0, not '0 W'"),
    power(
        "a curtailment below idle",
        "{curtail: [{start: 1 h, time: 1 h, cap: §50 kW}]}",
        "power.curtail.0.cap: is 50 kW, and with all nodes idle it takes",
    ),
    power(
        "a curtailment after the end",
        "{curtail: [{start: §900 d, time: 1 h, cap: 90 MW}]}",
        "power.curtail.0.start: is 900 d, and the horizon ends before; give less than",
    ),
    power(
        "a curtailment without end",
        "{curtail: [{start: 1 h, time: §1 d, every: 1 d, cap: 90 MW}]}",
        "power.curtail.0.time: is no shorter than every: then it never ends; give power.cap",
    ),
    power("no ramp", "{ramp_per_minute: §0 W}", "power.ramp_per_minute: must be above 0, not '0 W'"),
    power(
        "no pace left",
        f"{{ambient: {{temperature: 20, day: {{{_DAY}}}, slope: §10 %}}}}",
        "power.ambient.slope: leaves no pace at 40 °C; at most 6.67 %",
    ),
    power(
        "a profile of seconds",
        "§{carbon: {intensity: 400, profile: {every: 1 s, factors: [1, 2]}}}",
        "within the horizon; at most 100,000: give longer parts",
    ),
    power("unknown nodes", "{cap: §9 MW}", "power.cap: needs to know what a node draws", changes={2: UNKNOWN}),
    cost(
        "a profile of no price",
        f"{{{OWNED}, energy_profile: §{{{_DAY}}}}}",
        "cost.energy_profile: multiplies the price of a kWh: give energy too",
    ),
]

CASES = [*WAYS, *PRICES, *NEEDS, *POWER, *OVER_TIME]

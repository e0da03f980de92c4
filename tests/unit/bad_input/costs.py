"""Prices that cannot be, that do not go together or that need what nobody knows, and power that no node draws."""

from __future__ import annotations

from tests.unit.bad_input import Bad, bad

OWNED = "capex: 40000, years: 5"

PLAIN = "repair: {time: 1 d}"

TWO = "  - {name: train, gpus: 32, step_time: 10 s}\n  - {name: tune, gpus: 32, step_time: 10 s}"

UNKNOWN = "cluster: {nodes: 16, accelerator: mine, fabric: {leaf: {nodes: 4}}}"


def cost(described: str, *fragments: str, changes: dict[int, str] | None = None) -> Bad:
    """Return a scenario with bad prices."""
    return bad({13: f"{PLAIN}\ncost: {described}", **(changes or {})}, *fragments)


def power(described: str, *fragments: str, changes: dict[int, str] | None = None) -> Bad:
    """Return a scenario with bad power."""
    return bad({13: f"{PLAIN}\npower: {described}", **(changes or {})}, *fragments)


WAYS = [
    cost(
        f"{{gpu_hour: §2.5, {OWNED}}}",
        "cost.gpu_hour: is the price of rented GPUs, and capex, years that of owned ones: give one of these, not both",
    ),
    cost("{gpu_hour: §2.5, energy: 0.08}", "and energy that of owned ones"),
    cost("{gpu_hour: §2.5, repair: {gpu: 3000}}", "and repair that of owned ones"),
    cost(
        "§{currency: EUR}",
        "cost: give gpu_hour for rented GPUs, or capex and years for owned ones (missing: capex, years)",
    ),
    cost("§{capex: 40000}", "or capex and years for owned ones (missing: years)"),
    cost("§{years: 5, energy: 0.08}", "(missing: capex)"),
]

PRICES = [
    cost("{capex: 40000, years: §0}", "cost.years: must be above 0, not 0"),
    cost("{capex: §-1, years: 5}", "cost.capex: must be at least 0, not -1"),
    cost("{gpu_hour: §-2.5}", "cost.gpu_hour: must be at least 0, not -2.5"),
    cost(f"{{{OWNED}, repair: {{gpu: §-3}}}}", "cost.repair.gpu: must be at least 0, not -3"),
    cost("{capex: §'40000', years: 5}", "cost.capex: must be a number, not '40000'; remove the"),
    cost("{gpu_hour: §2.5 USD}", "cost.gpu_hour: must be a number, not '2.5 USD'"),
    cost("{gpu_hour: §.inf}", "cost.gpu_hour: must be"),
    cost("{gpu_hour: §true}", "cost.gpu_hour: must be a number, not true"),
    cost(f"{{{OWNED}, repair: §500}}", "cost.repair: must be a mapping (key: value), not 500"),
    cost("{gpu_hour: 2.5, currency: §''}", "cost.currency: must not be empty"),
    cost("§2.5", "cost: must be a mapping (keys: currency, gpu_hour,"),
    cost("{§gpu_hours: 2.5}", "cost.gpu_hours: unknown key 'gpu_hours'; did you mean 'gpu_hour'?"),
]

NEEDS = [
    cost(f"{{{OWNED}, repair: {{gpus: §3000}}}}", "cost.repair.gpus: unknown part 'gpus'; did you mean 'gpu'?"),
    cost(f"{{{OWNED}, repair: {{switch_tray: §3000}}}}", "unknown part 'switch_tray'"),
    cost(
        "§{gpu_hour: 2.5}",
        "cost: is shared by 2 jobs: say how with allocation: requested or allocation: gpus",
        changes={5: TWO},
    ),
    cost("{gpu_hour: 2.5, allocation: §gpu}", "cost.allocation: 'gpu' is not a choice", "did you mean 'gpus'?"),
    cost(
        f"{{{OWNED}, energy: §0.08}}",
        "cost.energy: needs to know what a node draws, and the catalog does not: give power.idle and power.training",
        changes={2: UNKNOWN},
    ),
]

POWER = [
    power("{switch: §690}", "power.switch: '690' needs a unit (for example \"700 W\")"),
    power("{storage: §3 kWh}", "'kWh' is a unit of energy, not of power"),
    power("{storage: §-3 kW}", "power.storage: must not be negative"),
    power("{pue: §0.9}", "power.pue: must be at least 1, not 0.9"),
    power("{pue: §120 %}", "power.pue: must be a number, not '120 %'"),
    power("{idle: §9 kW, training: 8 kW}", "power.idle: is 9000 W, but training takes only 8000"),
    power(
        "{idle: §9 kW}",
        "power.idle: leaves a node that draws 9000 W idle and 8000 W in training; give idle and training",
    ),
    power("{training: §2 kW}", "power.training: leaves a node that draws 2600 W idle"),
    power(
        "{idle: §2 kW}",
        "power.idle: also needs power.training: the catalog has no power for a node of this cluster",
        changes={2: UNKNOWN},
    ),
    power("{§puee: 1.1}", "power.puee: unknown key 'puee'; did you mean 'pue'?"),
]

_DAY = "every: 1 d, factors: [1, 2]"

OVER_TIME = [
    power("{cap: §50 kW}", "power.cap: is 50 kW, and with all nodes idle it takes"),
    power("{rack_cap: §5 kW}", "power.rack_cap: is 5 kW, and with all nodes idle it takes 10.4 kW"),
    power("{cap: §0 W}", "power.cap: must be above 0, not '0 W'"),
    power(
        "{curtail: [{start: 1 h, time: 1 h, cap: §50 kW}]}",
        "power.curtail.0.cap: is 50 kW, and with all nodes idle it takes",
    ),
    power(
        "{curtail: [{start: §900 d, time: 1 h, cap: 90 MW}]}",
        "power.curtail.0.start: is 900 d, and the horizon ends before; give less than",
    ),
    power(
        "{curtail: [{start: 1 h, time: §1 d, every: 1 d, cap: 90 MW}]}",
        "power.curtail.0.time: must be shorter than every, or it never ends; for a lasting cap give power.cap",
    ),
    power("{ramp_per_minute: §0 W}", "power.ramp_per_minute: must be above 0, not '0 W'"),
    power(
        f"{{ambient: {{temperature: 20, day: {{{_DAY}}}, slope: §10 %}}}}",
        "power.ambient.slope: leaves no pace at 40 °C; at most 6.67 %",
    ),
    power(
        "§{carbon: {intensity: 400, profile: {every: 1 s, factors: [1, 2]}}}",
        "within the horizon; at most 100,000: give longer parts",
    ),
    power("{cap: §9 MW}", "power.cap: needs to know what a node draws", changes={2: UNKNOWN}),
    cost(
        f"{{{OWNED}, energy_profile: §{{{_DAY}}}}}",
        "cost.energy_profile: multiplies the price of a kWh: give energy too",
    ),
]

CASES = [*WAYS, *PRICES, *NEEDS, *POWER, *OVER_TIME]

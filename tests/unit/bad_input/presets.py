"""Recovery presets that are not told right."""

from __future__ import annotations

from tests.unit.bad_input import bad, over

PRESET = "recovery: {use: nvrx-in-job, "

CASES = [
    bad(
        {11: "recovery: {use: §nvrx-in-jop}"},
        "recovery.use: 'nvrx-in-jop' is not a choice; did you mean 'nvrx-in-job'?",
    ),
    bad({11: "recovery: §torchft-hsdp"}, "recovery: ", "write {use: torchft-hsdp}"),
    bad({11: PRESET + "§patience: 1 h}"}, "recovery.patience: unknown key 'patience'"),
    bad({11: PRESET + "rungs: §[]}"}, "recovery.rungs: must have at least 1 item, and has 0"),
    bad({11: "recovery: {use: torchft-hsdp, catch_up: §10}"}, "recovery.catch_up: '10' needs a unit"),
    bad({8: "detection: {scale: §0}", 11: PRESET + "scale: 2}"}, "detection.scale: must be above 0, not 0"),
    bad(
        {10: "  from_preset: §maybe\n  tiers: [{interval: 1 h, write: 1 s, restore: 1 s}]", 11: PRESET + "scale: 2}"},
        "checkpoint.from_preset: must be true or false, not 'maybe'",
    ),
    over("recovery.use=nvrx-injob", "recovery.use: 'nvrx-injob' is not a choice"),
    over("recovery.rungs.0.budget=5", "recovery.rungs: unknown key 'rungs'"),
]

"""The JSON Schema of scenario files: valid, true of what is shipped, and false of what is wrong."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import jsonschema

import sim
from sim import yamlfile
from tests.cases import cases

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = sim.schema()
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
SCENARIOS = sim.shipped("scenarios")
SMALL = str(sim.shipped("topologies")["small-1k"])


def scenario(name: str) -> Any:
    """Return what a shipped file says, before anything is followed."""
    return yamlfile.load(SCENARIOS[name]).data


def put(data: Any, path: str, value: Any) -> Any:
    """Return a copy of `data` with a value at a dotted path, or without the key if there is no value."""
    data = copy.deepcopy(data)
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    holder = data
    for step in way:
        holder = holder[step]
    if value is None:
        del holder[last]
    else:
        holder[last] = value
    return data


def test_it_is_a_schema() -> None:
    """The schema is valid draft-07, which is what editors speak, and says so itself."""
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"


def test_every_reference_is_there() -> None:
    """Every ``$ref`` leads to a definition, and no definition is left over."""
    found: set[str] = set()

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            found.update(value for key, value in part.items() if key == "$ref")
            part = list(part.values())
        if isinstance(part, list):
            for item in part:
                walk(item)

    walk(SCHEMA)
    assert found == {f"#/$defs/{name}" for name in SCHEMA["$defs"]}


@cases("name", SCENARIOS)
def test_shipped_scenarios_fit(name: str) -> None:
    """Every shipped scenario fits the schema as it is written, and so does what it resolves to."""
    VALIDATOR.validate(scenario(name))
    VALIDATOR.validate(sim.load(SCENARIOS[name]).dump())


@cases(
    ("path", "value"),
    [
        ("horizn", "30 d"),
        ("horizon", None),
        ("horizon", 30),
        ("horizon", "30"),
        ("horizon", "-30 d"),
        ("horizon", True),
        ("jobs", []),
        ("jobs.0.gpu", 8),
        ("jobs.0.gpus", None),
        ("jobs.0.gpus", 64.5),
        ("jobs.0.mfu", 41),
        ("jobs.0.mfu", "a lot"),
        ("jobs.0.precision", "fp16"),
        ("jobs.0.parallelism", {"tensor": "8"}),
        ("jobs.0.work", "for ever"),
        ("failures.0.use", None),
        ("failures.0.use", "componet"),
        ("failures.0.rate", 6.5),
        ("failures.0.planned", "no"),
        ("checkpoint", "30 min"),
        ("checkpoint.tiers.0.mode", "sync"),
        ("recovery.use", None),
        ("recovery.use", "cold-spare"),
        ("recovery.delay", "10 s"),
        ("repair.time", {"mean": "1 d"}),
        ("repair.time", {"law": "weibull", "mean": "1 d"}),
        ("repair.time", {"law": "fixed"}),
        ("repair.time", "long"),
        ("cluster", {"nodes": 16, "fabric": {"radix": "big"}}),
        ("cluster", {"leaf": {"nodes": 4}}),
        ("seed", -1),
        ("extends", 3),
    ],
    ids=repr,
)
def test_wrong_scenarios_do_not_fit(path: str, value: Any) -> None:
    """An editor underlines unknown keys, wrong types, missing units, missing keys and unknown words."""
    assert not VALIDATOR.is_valid(put(scenario("quickstart"), path, value))


@cases(
    ("path", "value"),
    [
        ("cluster", {"extends": SMALL, "name": "mine"}),
        ("cluster", {"nodes": 128, "rack": {"nodes": 8}}),
        ("warmup", 0),
        ("jobs.0.gpus", "0.5 Ki"),
        ("jobs.0.work", {"time": "20 d"}),
        ("failures", []),
        ("failures.0.rate", 0),
        ("failures.0", {"use": "llama3-table5", "scale": {"cpu": 2}}),
        ("failures.0.interrupts", "50 %"),
        ("failures.0.interrupts", 0.5),
        ("repair.time", {"law": "empirical", "values": ["1 h", "3 h"]}),
        ("repair.time", "1h30m"),
        ("recovery", {"use": "full-restart", "initialize": {"law": "uniform", "low": 0, "high": "1 h"}}),
    ],
    ids=repr,
)
def test_right_scenarios_fit(tmp_path: Path, path: str, value: Any) -> None:
    """What the schema allows here, `load` reads too."""
    data = put(scenario("quickstart"), "cluster", SMALL)
    data = put(data, path, value)
    VALIDATOR.validate(data)
    file = tmp_path / "s.yaml"
    file.write_text(sim.dump(data), encoding="utf-8")
    sim.load(file)


def test_what_extends_need_not_be_complete() -> None:
    """A file that extends another one says only what is different."""
    VALIDATOR.validate({"extends": "quickstart.yaml", "horizon": "60 d"})
    assert not VALIDATOR.is_valid({"extends": "quickstart.yaml", "horizon": 60})
    assert not VALIDATOR.is_valid({"horizon": "60 d"})

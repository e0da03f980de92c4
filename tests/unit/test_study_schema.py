"""The schema, the reference page and the guide of studies are true of the program."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import sim
from analysis.study.designs import DESIGNS
from analysis.study.distributions import DISTRIBUTIONS
from analysis.study.load import first_look, load_study
from analysis.study.model import study_schema
from analysis.study.questions.kinds import QUESTIONS
from sim import yamlfile
from tests.cases import cases

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "howto" / "write-a-study.md").read_text(encoding="utf-8")
FILES = re.findall(r"^```\{code-block\} yaml\n:caption: (\S+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
PARTS = re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
SCHEMA = study_schema()
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
STUDY: dict[str, Any] = {"name": "x", "scenario": "quickstart", "vary": {"spares.hot": {"choices": [0, 1]}}}


def generator() -> Any:
    """Return the module docs/_generate_study.py."""
    spec = importlib.util.spec_from_file_location("docs_generate_study", ROOT / "docs" / "_generate_study.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_and_schema_are_current() -> None:
    """The committed files are what docs/_generate_study.py writes (make docs)."""
    page = (ROOT / "docs" / "reference" / "study.md").read_text(encoding="utf-8")
    assert page == generator().study_reference()
    written = (ROOT / "scenarios" / "studies" / "study.schema.json").read_text(encoding="utf-8")
    assert json.loads(written) == SCHEMA


def test_the_page_names_everything() -> None:
    """Every key has a row, and every law, design and question a section."""
    page = generator().study_reference()
    rows = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    for part in (SCHEMA, *SCHEMA["$defs"].values()):
        assert set(part["properties"]) - {"use", "law", "ask"} <= rows
    for tag, names in (("law", DISTRIBUTIONS), ("use", DESIGNS), ("ask", QUESTIONS)):
        assert re.findall(rf"^### {tag}: (\S+)$", page, re.MULTILINE) == list(names)


def test_it_is_a_schema() -> None:
    """The schema is valid draft-07, as that of scenarios."""
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == sim.schema()["$schema"]


@cases("name", sim.shipped("scenarios/studies"))
def test_shipped_studies_fit(name: str) -> None:
    """Every shipped study fits the schema as it is written."""
    VALIDATOR.validate(yamlfile.load(sim.shipped("scenarios/studies")[name]).data)


@cases(
    "change",
    [
        {"vari": {}},
        {"name": "a b"},
        {"vary": {}},
        {"vary": {"spares.hot": [0, 1]}},
        {"vary": {"spares.hot": {"choice": [0]}}},
        {"vary": {"spares.hot": {"range": {"min": 0}}}},
        {"vary": {"spares.hot": {"range": {"min": 0, "max": 4, "scale": "lg"}}}},
        {"vary": {"spares.hot": {"distribution": {"min": 0, "max": 4}}}},
        {"vary": {"spares.hot": {"distribution": {"law": "unifrm", "min": 0, "max": 4}}}},
        {"design": {"use": "gird"}},
        {"design": {"samples": 8}},
        {"design": {"use": "sobol"}},
        {"design": "grid"},
        {"questions": [{"ask": "bst"}]},
        {"questions": [{"metric": "ettr"}]},
        {"replications": "many"},
        {"replications": 1},
        {"at_equal": "money"},
    ],
    ids=repr,
)
def test_wrong_studies_do_not_fit(tmp_path: Path, change: dict[str, Any]) -> None:
    """An editor underlines unknown keys, wrong types, missing keys and unknown words; `load_study` refuses them."""
    VALIDATOR.validate(STUDY)
    assert not VALIDATOR.is_valid({**STUDY, **change})
    (tmp_path / "study.yaml").write_text(sim.dump({**STUDY, **change}), encoding="utf-8")
    with pytest.raises(sim.ScenarioError):
        load_study(tmp_path / "study.yaml")


def test_what_may_be_left_out() -> None:
    """A design that names none is a grid."""
    VALIDATOR.validate({**STUDY, "design": {"draws": 30}})
    VALIDATOR.validate({**STUDY, "design": {}})


@cases(("name", "text"), FILES, ids=[name for name, _ in FILES])
def test_studies_of_the_guide_are_good(tmp_path: Path, name: str, text: str) -> None:
    """Each study of the guide can be played as it stands."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert first_look(load_study(tmp_path / name)) == []


@pytest.mark.parametrize("text", PARTS)
def test_parts_of_the_guide_are_good(tmp_path: Path, text: str) -> None:
    """Each part of a study in the guide goes with its last whole one."""
    (tmp_path / "part.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "whole.yaml").write_text(FILES[-1][1], encoding="utf-8")
    part = yamlfile.load(tmp_path / "part.yaml").data
    whole = yamlfile.load(tmp_path / "whole.yaml").data
    if "precision" in part:
        del whole["replications"]
    (tmp_path / "study.yaml").write_text(sim.dump(whole | part), encoding="utf-8")
    assert first_look(load_study(tmp_path / "study.yaml")) == []


def test_the_guide_shows_enough() -> None:
    """The patterns find the studies and the parts of the guide."""
    assert len(FILES) >= 4
    assert len(PARTS) >= 5


def test_studies_are_listed() -> None:
    """The inventory has every shipped study with a line about it."""
    listed = sim.inventory()["studies"]
    assert set(listed) == set(sim.shipped("scenarios/studies"))
    assert all(listed.values())

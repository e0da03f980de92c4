"""Whether a modelled job fits into the memory of its GPUs, and what is said where it does not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import cli
from tests.cases import cases
from tests.step_jobs import LLAMA, described, examined, plan_of
from tests.unit.test_bad_input import folder  # noqa: F401  (a fixture that works in a folder of its own)


def crowded(share: float) -> dict[str, Any]:
    """Return an H100 with so little memory that the job takes `share` of it."""
    return {"like": "h100", "memory": f"{plan_of().memory.total / share / 1e9!r} GB"}


@cases(("share", "lines"), [(0.99, 0), (1.01, 1), (1.09, 1)])
def test_a_layout_that_hardly_fits_is_warned_of(share: float, lines: int) -> None:
    """From 100 to 110 % of the memory: counts are some per cent off."""
    case = examined(crowded(share))
    found = [line for line in case.warnings if "it may not fit" in line]
    assert len(found) == lines
    for line in found:
        assert f"by our count it needs {plan_of().memory.total / 1e9:,.1f} GB on GPUs of" in line


def answer(data: dict[str, Any], command: str = "check") -> tuple[int, str, str]:
    """Return exit code and what the command line prints for a scenario."""
    Path("s.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
    found = CliRunner().invoke(cli.app, [command, "s.yaml"], prog_name="ettrick")
    return found.exit_code, found.stdout, found.stderr


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_layout_that_does_not_fit_is_an_answer(command: str) -> None:
    """Above 110 % the answer is no, exit code 1: one line with the place, what is needed, and what would help."""
    code, printed, line = answer(described(crowded(1.11)), command)
    assert code == 1
    assert printed == ""
    assert re.match(r"s\.yaml:\d+:\d+: jobs\.0\.parallelism: job 'train' does not fit: [\d.]+ GB on GPUs of", line)
    assert line.count("\n") == 1
    code, _, line = answer(described(crowded(1.3), step_time="3 s"))
    assert code == 0, "a measured step has fitted, by its word"
    assert line.startswith("warning: job 'train': the stated step_time is kept for a layout that the model")


def test_what_is_offered_fits() -> None:
    """Each of the changes in the line, made to the scenario, is one that passes without a warning."""
    short = crowded(1.3)
    _, _, line = answer(described(short))
    offers = line.strip().partition("; it would with ")[2].split(" or ")
    assert 1 <= len(offers) <= 3
    for offer in offers:
        change = {name: yaml.safe_load(value) for name, value in (part.split(": ") for part in offer.split(" with "))}
        sizes = {name: size for name, size in change.items() if name in ("tensor", "context", "pipeline", "data")}
        layout = LLAMA["parallelism"] | sizes
        rest = {name: value for name, value in change.items() if name not in sizes}
        case = examined(short, parallelism=layout, execution=rest)
        assert not any("fit" in warning for warning in case.warnings), offer

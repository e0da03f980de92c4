"""What `ettrick list` says: a line for each thing that comes with Ettrick, with its source."""

from __future__ import annotations

import re

import pytest

import sim
from analysis.page.chapters.listing import format_inventory, kinds
from tests import small
from tests.cases import cases

WITH_SOURCE = (
    "scenarios",
    "studies",
    "topologies",
    "failure bundles (failures.use)",
    "recovery presets (recovery.use)",
    "models (jobs.model)",
    "accelerators (cluster.accelerator)",
)


@cases("kind", WITH_SOURCE)
def test_each_line_ends_with_its_source(kind: str) -> None:
    """What stands in a file or in the catalog has a text, and in brackets at its end where it comes from."""
    entries = sim.inventory()[kind]
    assert entries
    for name, text in entries.items():
        found = re.fullmatch(r"(?P<text>\S.*[^.]) \((?P<source>\S.+[^.])\)", text)
        assert found is not None, name
        assert len(found["source"]) <= 180, name


def test_sources_are_those_of_the_files() -> None:
    """A scenario that names a paper has it on its line; so has what extends it, and a study of it."""
    listing = sim.inventory()
    assert listing["scenarios"]["llama3-405b-54d"].endswith("(arXiv 2407.21783, and assumptions)")
    assert "2407.21783" in listing["scenarios"]["llama3-405b-16k"]
    assert listing["studies"]["spares-and-repair"].endswith("(llama3-405b-16k; arXiv 2407.21783, and assumptions)")
    assert "SIGCOMM" in listing["scenarios"]["leaf-dual-homed"]
    assert 'Llama 3 Herd of Models", arXiv 2407.21783)' in listing["topologies"]["h100-roce-24k"]
    assert "https:" not in "".join(listing["topologies"].values())


def test_without_a_terminal_lines_are_whole() -> None:
    """A pipe gets one line for each name, whatever its length, and no colours."""
    lines = format_inventory().split("\n")
    entries = [(name, text) for kind in sim.inventory().values() for name, text in kind.items()]
    assert len(lines) == len(entries) + len(sim.inventory())
    for name, text in entries:
        assert any(line.startswith(f"  {name} ") and line.endswith(f"  {text}") for line in lines), name
    assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize("width", [200, 80, 72])
def test_lines_respect_the_width(width: int) -> None:
    """No line is wider than asked for, what is wrapped hangs below its text, and nothing is lost."""
    lines = format_inventory(width).split("\n")
    assert max(map(len, lines)) <= width
    assert format_inventory(width).split() == format_inventory().split()
    column = next(line for line in lines if line.startswith("  quickstart")).index("What a month")
    after = lines[lines.index(next(line for line in lines if line.startswith("  quickstart"))) + 1]
    if width < 200:
        assert after[:column].strip() == ""
        assert after[column] != " "


def test_one_kind_can_be_listed_alone() -> None:
    """All kinds one after the other are the whole list; each has a name of one word."""
    parts = [format_inventory(only=kind).rstrip("\n") for kind in kinds()]
    assert "\n".join(parts) == format_inventory().rstrip("\n")
    assert all(re.fullmatch("[a-z-]+", kind) for kind in kinds())
    result = small.call("list", "lemon-policies")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["lemon", "threshold", "score"]


def test_a_kind_that_is_none_is_told_in_a_line() -> None:
    """The line has the nearest kind, and all of them."""
    result = small.call("list", "studdies")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "did you mean 'studies'?" in result.stderr
    assert all(kind in result.stderr for kind in kinds())

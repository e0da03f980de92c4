"""Every number of what is shipped, kept so that a change of the code can be seen to leave them alone.

``python -m tests.shipped_numbers FOLDER`` writes the numbers of each scenario, of a small version of each study, and of
``explain``, ``layouts``, ``compare`` and ``trace``: a file for each, a line ``path value`` for each number, floats by
repr. ``--against OTHER`` compares two such folders and ends with 1 if a number is another, or is not there;
``--renamed OLD=NEW`` says that a key of a path has a new name.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner

from ettrick import sim
from ettrick.analysis.ratios import ratios
from ettrick.analysis.study.load import load_study
from ettrick.cli import app
from tests.cases import SIMULATED
from tests.unit.test_study_summary import SHORT, corners

if TYPE_CHECKING:
    from collections.abc import Iterator

_VOLATILE = ("provenance",)

_SHOWN = 20

_SMALL = ("--set", "set.horizon=1 d", "--jobs", "1")

_COMPARED = {
    "recovery": (
        "recovery-16k",
        "--vary",
        "recovery.use=slurm-requeue,nvrx-in-job,torchft-hsdp,ntp",
        "--set",
        "horizon=5 d",
    ),
    "spares": ("quickstart", "--vary", "spares.hot=0,4", "--set", "repair={use: simple, time: 1 d}"),
}


def _leaves(content: Any, path: str = "") -> Iterator[tuple[str, int | float]]:
    """Yield path and value of each number."""
    if isinstance(content, dict):
        for key, value in content.items():
            if key not in _VOLATILE:
                yield from _leaves(value, f"{path}/{key}")
    elif isinstance(content, list | tuple):
        for index, value in enumerate(content):
            yield from _leaves(value, f"{path}/{index}")
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield path, content


def _said(*command: str) -> Any:
    """Return the JSON that a command prints; what it says where it refuses."""
    found = CliRunner().invoke(app, [*command, "--quiet", "--json"])
    return json.loads(found.stdout) if found.stdout.startswith("{") else {"exit": found.exit_code}


def _traced(name: str) -> Any:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        CliRunner().invoke(app, ["trace", name, "--out", str(file), "--set", "horizon=3 d"])
        return json.loads(file.read_text(encoding="utf-8"))


def _study(path: Path) -> Any:
    """Return two replications at the corners of a study, a day long."""
    study = load_study(path, SHORT)
    found: dict[str, Any] = {}
    for point in corners(study):
        prepared = sim.prepare(study.template.scenario(study.overrides(point)))
        where = ",".join(value.label for value in point.values)
        found[where] = [ratios(prepared, sim.run(prepared, number)) for number in range(2)]
    return found


def _everything() -> Iterator[tuple[str, Any]]:
    """Yield the name of a file and what its numbers are in."""
    for name in SIMULATED:
        yield f"run-{name}", _said("run", name, "--replications", "3", "--jobs", "1")
        yield f"explain-{name}", _said("explain", name, "--replications", "0")
        yield f"layouts-{name}", _said("layouts", name, "--top", "5")
        yield f"trace-{name}", _traced(name)
    for name, command in _COMPARED.items():
        yield f"compare-{name}", _said("compare", *command, "--replications", "10", "--jobs", "1")
    for name, path in sim.shipped("scenarios/studies").items():
        if load_study(path).study.is_listed:
            continue  # its points follow from a search
        yield f"study-{name}", _study(path)
        yield f"sweep-{name}", _said("sweep", name, *_SMALL, "--replications", "2", "--yes")
    yield "sensitivity", _said("sensitivity", "nvl8-or-nvl72", *_SMALL, "--replications", "4", "--samples", "4")
    yield "optimize", _said("optimize", "cost-and-spares", *_SMALL, "--replications", "4", "--trials", "6")
    yield "worth", _said("explain", "quickstart", "--worth", "--replications", "10", "--jobs", "1")


def _write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in _everything():
        lines = sorted(f"{path} {value!r}" for path, value in _leaves(content))
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        sys.stderr.write(f"{name}: {len(lines):,} numbers\n")


def _differences(before: Path, after: Path, renamed: dict[str, str]) -> Iterator[str]:
    for file in sorted(before.glob("*.txt")):
        old, new = (
            dict(line.rsplit(" ", 1) for line in (folder / file.name).read_text(encoding="utf-8").splitlines() if line)
            for folder in (before, after)
        )
        old = {"/".join(renamed.get(key, key) for key in path.split("/")): value for path, value in old.items()}
        for path, value in old.items():
            if new.get(path) != value:
                yield f"{file.stem}{path}: {value} -> {new.get(path, 'gone')}"


def main() -> int:
    """Write the numbers, and compare them if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--against", type=Path, help="numbers from before, to compare with")
    parser.add_argument("--renamed", action="append", default=[], metavar="OLD=NEW")
    asked = parser.parse_args()
    if not asked.folder.exists():
        _write(asked.folder)
    if asked.against is None:
        return 0
    found = list(_differences(asked.against, asked.folder, dict(text.split("=", 1) for text in asked.renamed)))
    for line in found[:_SHOWN]:
        print(line)
    print(f"{len(found):,} numbers differ")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

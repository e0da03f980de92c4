"""The wheel holds everything that the program needs, and runs far away from the repository."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel with the build backend of this environment: the network is not needed."""
    return built(ROOT, tmp_path_factory.mktemp("wheel"))


def built(source: Path, folder: Path) -> Path:
    """Build a wheel in a folder."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-cache-dir"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(source)], check=True, cwd=source.parent)
    (path,) = folder.glob("ettrick-*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the wheel into an empty folder: installed, with the dependencies of this environment."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run_python(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the empty `folder`, with the unpacked wheel ahead of any editable install."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def names(wheel: Path) -> set[str]:
    """Return the paths inside the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_holds_all_code_and_data(wheel: Path) -> None:
    """Every module, catalog file, scenario, log and topology of the checkout is in the wheel, where it belongs."""
    places = {"sim": "ettrick/sim", "analysis": "ettrick/analysis"}
    places |= {"scenarios": "ettrick/sim/_data/scenarios", "topologies": "ettrick/sim/_data/topologies"}
    expected = {"ettrick/cli.py", "ettrick/__init__.py", "ettrick/py.typed"}
    for source, target in places.items():
        expected |= {
            f"{target}/{path.relative_to(ROOT / source).as_posix()}"
            for path in (ROOT / source).rglob("*")
            if path.suffix in {".py", ".yaml", ".csv", ".j2", ".css", ".js"}
        }
    inside = names(wheel)
    assert expected - inside == set()
    assert "ettrick/sim/_data/scenarios/quickstart.yaml" in inside
    assert "ettrick/analysis/page/formats/page/style.css" in inside
    assert "ettrick/analysis/validation/recorded.json" in inside
    for start in ("sim/_data/topologies/", "sim/catalog/", "analysis/validation/tables/"):
        assert any(name.startswith(f"ettrick/{start}") and name.endswith(".yaml") for name in inside), start


def test_wheel_holds_nothing_else(wheel: Path) -> None:
    """Tests, documentation and configuration stay in the repository."""
    tops = {name.split("/")[0] for name in names(wheel)}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"ettrick"}


def test_the_container_copies_all_that_the_wheel_is_made_of(wheel: Path, tmp_path: Path) -> None:
    """From what the Containerfile copies comes the same wheel, and pins and extras that it names exist."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE):
        *sources, target = line.split()
        for source in sources:
            into = tmp_path / target.lstrip("/") / (Path(source).name if target.endswith("/") else "")
            into.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (ROOT / source).is_dir() else shutil.copy)(ROOT / source, into)
    assert (tmp_path / "source" / "constraints.txt").is_file()
    assert names(built(tmp_path / "source", tmp_path / "wheels")) == names(wheel)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = re.findall(r'\[([a-z,]+)\]"', text)
    assert len(extras) == 2
    assert set(",".join(extras).split(",")) <= set(project["optional-dependencies"])


def test_command_is_declared(wheel: Path) -> None:
    """The wheel gives the command ``ettrick`` to its environment."""
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "ettrick = ettrick.cli:app" in archive.read(path).decode()


def test_imports_come_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    """The environment of these tests proves something: the code that runs is the wheel's, not the checkout's."""
    code = "from ettrick import analysis, cli, sim; print(analysis.__file__, cli.__file__, sim.__file__, sep='\\n')"
    answer = run_python(installed, tmp_path, "-c", code)
    assert answer.returncode == 0, answer.stderr
    assert all(path.startswith(str(installed)) for path in answer.stdout.splitlines())


def test_quickstart_runs_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    """A packaged scenario is found by name and answered, without the repository."""
    arguments = ("run", "quickstart", "--replications", "10", "--json")
    answer = run_python(installed, tmp_path, "-c", "from ettrick.cli import app; app()", *arguments)
    assert answer.returncode == 0, answer.stderr
    document: dict[str, Any] = json.loads(answer.stdout)
    assert document["scenario"] == "quickstart"
    assert document["replications"] == 10
    assert list(tmp_path.iterdir()) == []


@pytest.mark.nightly
def test_folders_of_the_user_do_not_get_in_the_way(wheel: Path, tmp_path: Path) -> None:
    """The command runs in a folder that has a ``sim``, an ``analysis`` and a ``cli.py`` of its own."""
    target, work = tmp_path / "target", tmp_path / "work"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*install, str(wheel)], check=True)
    for name in ("sim/__init__.py", "analysis/__init__.py", "cli.py"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("raise SystemExit('the code of the user')\n")
    for command in ([str(target / "bin" / "ettrick")], ["-c", "from ettrick.cli import app; app()"]):
        answer = run_python(target, work, *command, "run", "quickstart", "--replications", "2", "--quiet")
        assert answer.returncode == 0, answer.stderr
        assert "goodput" in answer.stdout
    answer = run_python(target, work, "-c", "import ettrick; ettrick.load; import analysis")
    assert answer.stderr == "the code of the user\n"


def test_shipped_files_go_by_name_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    """To load, to extend, and as a cluster, without the repository."""
    (tmp_path / "mine.yaml").write_text("extends: quickstart\ncluster: h100-100k\n")
    code = "from ettrick import sim; print(sim.load('quickstart').cluster.nodes, sim.load('mine.yaml').cluster.nodes)"
    answer = run_python(installed, tmp_path, "-c", code)
    assert answer.returncode == 0, answer.stderr
    quickstart, own = map(int, answer.stdout.split())
    assert quickstart == 128 < own


def test_the_validation_table_is_read_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    """Its rows, its measures and what is not checked are found without the repository."""
    code = "from ettrick.analysis.validation.table import load_table as t; print(len(t().rows), len(t().unchecked))"
    answer = run_python(installed, tmp_path, "-c", code)
    assert answer.returncode == 0, answer.stderr
    assert all(int(number) > 10 for number in answer.stdout.split())


@pytest.mark.nightly
def test_every_shipped_scenario_is_found_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    """Each packaged scenario is accepted by name, with the topology and the log that it refers to."""
    found = sorted((installed / "ettrick" / "sim" / "_data" / "scenarios").glob("*.yaml"))
    assert {"quickstart", "replay"} <= {path.stem for path in found}
    for path in found:
        answer = run_python(installed, tmp_path, "-c", "from ettrick.cli import app; app()", "check", path.stem)
        assert answer.returncode == 0, answer.stderr

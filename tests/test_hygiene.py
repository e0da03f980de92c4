"""What the repository must not hold: addresses of package indexes, paths of one machine, lock files that embed them."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.cases import cases

ROOT = Path(__file__).resolve().parents[1]

# Built from pieces, so that this file does not find itself.
HOSTS = [("py", "pi", ".org"), ("python", "hosted.org"), ("py", "pi.python.org"), ("jf", "rog.io"), ("artif", "actory")]

HOSTS += [("code", "artifact."), ("python", ".pkg.dev"), ("dev", "pi/"), ("/", "simple/"), ("fi", "le:///")]

# The first folder of an absolute path on somebody's machine; the look-behind leaves URLs and relative paths alone.
FOLDERS = [("ro", "ot"), ("ho", "me"), ("Us", "ers"), ("wo", "rk"), ("op", "t"), ("m", "nt"), ("tm", "p")]

FORBIDDEN = re.compile(
    "|".join(re.escape("".join(pieces)) for pieces in HOSTS)
    + r"|(?<![\w./~$}*)>-])/(?:"
    + "|".join("".join(pieces) for pieces in FOLDERS)
    + r")/\w"
    + r"|\b[A-Z]:\\"
    + "Users"
)


def tracked() -> list[Path]:
    """Return the files that git tracks and that exist, or skip the test outside a checkout."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not in a git checkout")
    answer = subprocess.run([git, "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        pytest.skip(f"git cannot list this checkout: {answer.stderr.strip()}")
    return [path for name in answer.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def breaches(text: str) -> list[str]:
    """Return each line of `text` that names an index host or an absolute path of a machine, with its number."""
    return [f"{number}: {line.strip()}" for number, line in enumerate(text.splitlines(), 1) if FORBIDDEN.search(line)]


def test_no_registry_host_and_no_machine_path() -> None:
    """No tracked text file names a package index or a folder of one machine."""
    found: list[str] = []
    for path in tracked():
        content = path.read_bytes()
        if b"\0" not in content:  # compressed data is not text
            found += [f"{path.relative_to(ROOT)}:{line}" for line in breaches(content.decode(errors="replace"))]
    assert not found, "\n" + "\n".join(found)


def test_no_lock_file_with_addresses() -> None:
    """Locks that embed an index address are not tracked; constraints.txt is the lock."""
    names = [path.name for path in tracked()]
    assert [name for name in names if re.fullmatch(r"uv\.lock|pylock(\..+)?\.toml", name)] == []


def test_constraints_are_pins_and_nothing_else() -> None:
    """Every line of constraints.txt is name==version with an optional marker: no address, path or option."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9.-]+==[\w.+!]+( ; [\w.*<>=!'() ]+)?", line)] == []


def test_what_users_install_has_a_floor_and_a_ceiling() -> None:
    """No release that nobody has tried gets into an installation by itself; tools of development may be newer."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(line for extra in ("data", "cluster", "opt", "report") for line in extras[extra]),
    ]
    assert [line for line in wanted if not re.search(r">=[\d.]+,<\d+$", line)] == []


@cases(
    "pieces",
    [
        ("pip install --index-url https://", "py", "pi.org", "/", "simple"),
        ("https://files.python", "hosted.org/packages/ab/cd"),
        ("--find-links fi", "le:///wheels"),
        ("DATA = '/ro", "ot/data'"),
        ("see /wo", "rk/main/sim"),
        ("/ho", "me/anna/ettrick"),
        ("PATH=/op", "t/tools:$PATH"),
        ("C:\\", "Users\\anna"),
    ],
)
def test_pattern_turns_red(pieces: tuple[str, ...]) -> None:
    """The pattern finds each kind of address and path."""
    assert breaches("first line\n" + "".join(pieces)) == ["2: " + "".join(pieces)]


@cases(
    "line",
    [
        "https://example.org/home/page and https://example.org/work/paper.pdf",
        "Python Package Index, network/work/units, 3 failures/work/day, a/tmp/b",
        "#!/usr/bin/env bash",
        "$HOME/opt/x, ~/work/x, ../root/x, ./tmp/x, and the root / of a tree",
        "repair and/or work/repair",
    ],
)
def test_pattern_stays_green(line: str) -> None:
    """Addresses of papers, relative paths and ordinary text are not found."""
    assert breaches(line) == []

"""Whatever is done to a file, a command ends with an answer or with lines that say what is wrong, and soon.

Mutations know the structure: they change, remove, repeat, swap and nest values of every shipped scenario, study and
topology, and of folders of results, and now and then the text itself. ``ETTRICK_SEED`` gives other ones: the nightly
tests have minutes, a push has seconds, both with a budget of time and not of cases. A case that fails is shown with
its seed and number, and ``mutated`` makes it again.
"""

from __future__ import annotations

import contextlib
import copy
import json
import random
import re
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from typer.testing import CliRunner

from ettrick import cli, sim
from ettrick.sim import yamlfile
from tests import report_sample
from tests.pace import SEED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 20

"""Seconds of computing that one command may take [s]; what is accepted is cut to an hour of simulated time."""

SHIPPED: dict[str, Path] = {
    f"{kind}/{name}": path
    for kind in ("scenarios", "scenarios/studies", "topologies")
    for name, path in sim.shipped(kind).items()  # type: ignore[arg-type]
}

VALUES: tuple[Any, ...] = (
    "",
    "x",
    "1 h",
    "-1 h",
    "1e400 s",
    "0 s",
    "3 GB",
    "400 Gb/s",
    "node",
    "50 %",
    "1 per node-day",
    "../nowhere.yaml",
    "quickstart",
    "a\u2028b",
    0,
    1,
    -1,
    2,
    7.5,
    1e-300,
    1e18,
    1e308,
    10**30,
    float("inf"),
    float("nan"),
    True,
    False,
    None,
    [],
    {},
    [None],
    [[]],
    {"use": "x"},
    {"a": {"b": ["c"]}},
    {"use": "weibull", "mean": "1 d", "shape": 0.7},
    {"extends": "quickstart"},
)


class TooLongError(BaseException):
    """A command has not ended; nobody else catches this."""


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise an error in what computes for longer, however busy the machine is, or waits for ten times as long."""

    def stop(*_: Any) -> None:
        raise TooLongError

    kinds = {signal.SIGVTALRM: (signal.ITIMER_VIRTUAL, seconds), signal.SIGALRM: (signal.ITIMER_REAL, 10 * seconds)}
    before = {number: signal.signal(number, stop) for number in kinds}
    for timer, limit in kinds.values():
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for timer, _ in kinds.values():
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def call(*arguments: str) -> Any:
    """Return what a command does in this process: status, streams, and the exception that came out of it, if any."""
    with at_most(PATIENCE):
        return CliRunner().invoke(cli.app, list(arguments), prog_name="ettrick")


def judged(result: Any, *, place: str) -> str | None:
    """Return what is wrong with how a command has ended: a traceback, or a refusal without its place."""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return f"{type(result.exception).__name__}: {result.exception}"
    if result.exit_code not in (0, 1, 2):
        return f"status {result.exit_code}"
    if result.exit_code == 2:
        lines = result.stderr.splitlines()
        if not lines or len(lines) > 30:
            return f"{len(lines)} lines"
        if not any(place in line or re.search(r"^--set |\.\w+:\d+:", line) for line in lines):
            return f"no place: {lines[0]}"
    return None


def places(content: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of everything in a document."""
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield (*at, key)
        yield from places(value, (*at, key))


def holder_of(content: Any, path: tuple[Any, ...]) -> Any:
    """Return the mapping or list around a place."""
    for step in path[:-1]:
        content = content[step]
    return content


def mutated(content: Any, rng: random.Random) -> Any:
    """Return a copy of a document with one to three things done to it."""
    found = copy.deepcopy(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        paths = list(places(found))
        if not paths:
            return found
        depth = rng.choice(sorted({len(path) for path in paths}))
        path = rng.choice([path for path in paths if len(path) == depth])
        holder, key = holder_of(found, path), path[-1]
        other = rng.choice(paths)
        match rng.choice(("value", "value", "value", "scale", "remove", "rename", "repeat", "swap", "nest")):
            case "value":
                holder[key] = copy.deepcopy(rng.choice(VALUES))
            case "scale" if isinstance(holder[key], int | float):
                holder[key] *= rng.choice((-1, 0, 0.5, 1000, 1e9))
            case "scale" if isinstance(holder[key], str):
                numbers = rng.choice(("0", "-3", "1e9", "0.001", ""))
                holder[key] = re.sub(r"\d[\d.]*", numbers, holder[key], count=1)
            case "rename" if isinstance(holder, dict) and isinstance(key, str):
                holder[key[:-1] + rng.choice("xs_0")] = holder.pop(key)
            case "repeat" if isinstance(holder, list):
                holder.insert(0, copy.deepcopy(holder[key]))
            case "swap" if path[: len(other)] != other:
                holder[key] = copy.deepcopy(holder_of(found, other)[other[-1]])
            case "nest":
                holder[key] = [holder[key]] if rng.random() < 0.5 else {str(key): holder[key]}
            case _:
                del holder[key]
    return found


def torn(text: str, rng: random.Random) -> str:
    """Return a text with a piece of it gone, twice there, or with something strange in it."""
    start = rng.randrange(len(text))
    end = min(start + rng.choice((1, 3, 40, 400)), len(text))
    piece = rng.choice(("", text[start:end] * 2, "\t", "\0", "- {", "&a *a", "{}: ", "\ud7ff", "!!x ", "\n"))
    return text[:start] + piece + text[end:]


def scenario_case(name: str, rng: random.Random, folder: Path) -> str | None:
    """Return what is wrong with what commands do about a mutated file; ``None`` if nothing."""
    text = SHIPPED[name].read_text(encoding="utf-8")
    plain = yamlfile.load(SHIPPED[name]).data
    path = folder / Path(name).parent / "fuzzed.yaml"  # among copies of the files that it names
    if rng.random() < 0.1:
        path.write_text(torn(text, rng), encoding="utf-8", errors="replace")
    else:
        path.write_text(yaml.safe_dump(mutated(plain, rng), allow_unicode=True, sort_keys=False), encoding="utf-8")
    if name.startswith("topologies"):
        return judged(call("topology", "show", str(path)), place=".yaml")
    if "studies" in name:
        small_study = ("--replications", "2", "--shard", "1/997", "--executor", "serial", "--quiet", "--overwrite")
        return judged(call("sweep", str(path), *small_study, "--out", str(folder / "study")), place=".yaml")
    result = call("check", str(path))
    found = judged(result, place=".yaml")
    if found is not None or result.exit_code != 0:
        return found
    short = ("--replications", "1", "--jobs", "1", "--quiet", "--set", "horizon=1 h", "--set", "warmup=0 s")
    result = call("run", str(path), *short)
    return judged(result, place=": ")


def report_case(folders: dict[str, Path], rng: random.Random) -> str | None:
    """Return what is wrong with what ``report`` does about a folder of which one file was changed."""
    name = rng.choice(sorted(folders))
    folder = folders[name]
    files = [
        path
        for path in sorted(folder.iterdir())
        if path.suffix in (".json", ".yaml", ".csv") and path.name != "study.json"
    ]
    path = rng.choice([*files, *(path for path in files if path.suffix == ".json")])
    before = path.read_text(encoding="utf-8")
    if path.suffix == ".csv" or rng.random() < 0.1:
        changed = torn(before, rng)
    elif path.suffix == ".json":
        content = mutated(json.loads(before), rng)
        if rng.random() < 0.7 and isinstance(content.get("provenance"), dict):
            content["provenance"].pop("sha256", None)
        changed = json.dumps(content)
    else:
        changed = yaml.safe_dump(mutated(yamlfile.load(path).data, rng), sort_keys=False)
    try:
        path.write_text(changed, encoding="utf-8", errors="replace")
        return judged(call("report", str(folder), "--format", "md", "--quiet"), place=folder.name)
    except TooLongError:
        if path.suffix != ".yaml":
            raise
        return None  # the scenario that a report simulates again may well be a larger one now
    finally:
        path.write_text(before, encoding="utf-8")


def hunted(case: Callable[[str, random.Random], str | None], names: list[str], budget: float) -> None:
    """Run cases until the budget of seconds is spent; fail with all that went wrong, by seed and number."""
    wrong: dict[str, str] = {}
    end = time.monotonic() + budget
    number = 0
    while time.monotonic() < end and len(wrong) < 25:
        name = names[number % len(names)]
        told = f"{SEED}:{name}:{number}"
        try:
            found = case(name, random.Random(told))
        except TooLongError:
            found = f"not done after {PATIENCE} s"
        if found is not None:
            wrong.setdefault(found, told)
        number += 1
    assert not wrong, f"of {number} cases:\n" + "\n".join(f"{told}: {found}" for found, told in wrong.items())


pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="nothing here ends what takes too long")


def budget(seconds: float) -> Any:
    """Return the two budgets of a hunt: that of a push, and that of a night."""
    marks = [pytest.mark.nightly, pytest.mark.timeout(180 * seconds + 300)]
    return pytest.mark.parametrize(
        "seconds", [pytest.param(seconds / 2, id="push"), pytest.param(180 * seconds, marks=marks, id="night")]
    )


@budget(2)
def test_every_mutation_of_a_shipped_file_is_refused_at_its_place_or_can_be_played(
    seconds: float, tmp_path: Path
) -> None:
    """No traceback, no endless command, and each refusal names the file."""
    for kind in ("scenarios", "topologies"):
        shutil.copytree(
            SHIPPED[f"{kind}/{'quickstart' if kind == 'scenarios' else 'small-1k'}"].parent, tmp_path / kind
        )
    hunted(lambda name, rng: scenario_case(name, rng, tmp_path), sorted(SHIPPED), seconds)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Return a small folder of each of three kinds of results."""
    scenario = report_sample.write(tmp_path, monkeypatch)
    study = "name: s\nscenario: small.yaml\nvary: {spares.hot: {choices: [0, 2]}}\nreplications: 4\n"
    Path("study.yaml").write_text(study + "questions: [{use: best, metric: ettr}]\n")
    commands = {
        "ran": ("run", scenario, "--replications", "3"),
        "compared": ("compare", scenario, "--vary", "spares.hot=0,2", "--replications", "3"),
        "swept": ("sweep", "study.yaml", "--executor", "serial"),
        "moved": ("sensitivity", "study.yaml", "--method", "tornado", "--executor", "serial"),
    }
    for name, command in commands.items():
        assert report_sample.call(*command, "--quiet", "--out", name).exit_code in (0, 1), name
    return {name: tmp_path / name for name in commands}


@budget(2)
def test_every_mutation_of_results_is_refused_at_its_place_or_reported(
    seconds: float, folders: dict[str, Path]
) -> None:
    """No traceback, no endless command, and each refusal names the folder."""
    hunted(lambda _, rng: report_case(folders, rng), ["report"], seconds)

"""Print what starting costs: ``python -m tests.bench.startup``, a part of ``make bench``.

Times are of CPU, as multiples of what importing the libraries alone costs, all measured in turn: machines differ and
are shared. Bytecode is cached, as it is from the second start of an installation on.
"""

from __future__ import annotations

import collections
import os
import re
import statistics
import subprocess
import sys
import tempfile

from tests.bench import COMMAND, cost_of

_LIBRARIES = "import numpy, pydantic, yaml, typer, simpy"

_COMMAND = COMMAND[-1]

_CASES = {
    "import ettrick.sim": ("import ettrick.sim", (), 1.8),
    "--help": (_COMMAND, ("--help",), 0.6),
    "check llama3-405b-54d": (_COMMAND, ("check", "llama3-405b-54d"), 1.8),
    "run quickstart": (_COMMAND, ("run", "quickstart", "--quiet"), 2.4),
}

"""Code, arguments, and the target as a multiple of the libraries alone."""

_NODES = (128, 16_384)

"""Sizes of a cluster under one spine whose checks are compared."""


def _check(nodes: int) -> tuple[str, tuple[str, ...], float]:
    fabric = ("--set", "cluster.fabric.radix=131072", "--set", f"cluster.nodes={nodes}")
    return _COMMAND, ("check", "quickstart", *fabric), 1.0


_LINE = re.compile(r"import time: +(\d+) \| +\d+ \| +(\S+)")


def startup_rows(repeats: int = 9) -> list[str]:
    """Return the cost of starting, and where it goes: own times of modules, summed by package."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = folder
        cases = {"libraries": (_LIBRARIES, (), 1.0), **_CASES, **{f"{nodes}": _check(nodes) for nodes in _NODES}}
        seconds: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(repeats + 1):
            for name, (code, arguments, _target) in cases.items():
                seconds[name].append(cost_of(sys.executable, "-c", code, *arguments, environment=environment).cpu)
        median = {name: statistics.median(times[1:]) for name, times in seconds.items()}  # the first writes bytecode
        rows = [f"start-up; importing the libraries alone takes {median['libraries']:.2f} s of CPU"]
        for name, (_code, _arguments, target) in _CASES.items():
            ratio = median[name] / median["libraries"]
            rows.append(f"  {name:24} {median[name]:6.2f} s  {ratio:5.2f} times that (target <= {target})")
        few, many = (median[f"{nodes}"] for nodes in _NODES)
        rows.append(f"  16,384 nodes under one spine: {1e3 * (many - few):.0f} ms more than 128 (target <= 50 ms)")
        for name in _CASES:
            code, arguments, _target = _CASES[name]
            rows += ["", *_import_rows(name, ["-c", code, *arguments], environment)]
    return rows


def _import_rows(name: str, arguments: list[str], environment: dict[str, str]) -> list[str]:
    """Return the ten packages whose modules take longest to import, by their own times."""
    command = [sys.executable, "-X", "importtime", *arguments]
    found = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    times: collections.Counter[str] = collections.Counter()
    modules: collections.Counter[str] = collections.Counter()
    for line in found.stderr.splitlines():
        match = _LINE.match(line)
        if match is not None:
            parts = match[2].split(".")
            package = ".".join(parts[:2]) if parts[0] in ("sim", "analysis") and len(parts) > 2 else parts[0]
            times[package] += int(match[1])
            modules[package] += 1
    rows = [f"imports of {name}: {sum(times.values()) / 1000:.0f} ms, {sum(modules.values())} modules"]
    return rows + [
        f"  {each:24} {time / 1000:6.1f} ms  {modules[each]:4} modules" for each, time in times.most_common(10)
    ]


if __name__ == "__main__":
    sys.stdout.write("\n".join(startup_rows()) + "\n")

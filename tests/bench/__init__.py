"""Benchmarks; what a whole command costs is measured here for all of them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMAND = (sys.executable, "-c", "import sys; sys.argv[0] = 'ettrick'; from ettrick.cli import app; app()")
"""The start of a command line, as the script that is installed has it."""

# The peak memory of a process counts that of the process which started it, so a small one stands between.
_STARTER = """\
import resource, subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
seconds, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
print(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


class Cost(NamedTuple):
    """The cost of a command: wall-clock time [s], time of CPU with its processes [s], memory of the largest [MB]."""

    wall: float
    cpu: float
    megabytes: float


def cost_of(*command: str, environment: Mapping[str, str] | None = None) -> Cost:
    """Run a command to its end, which must be status 0, and return its cost."""
    starter = [sys.executable, "-c", _STARTER, *command]
    run = subprocess.run(starter, check=True, capture_output=True, text=True, env=environment)
    return Cost(*map(float, run.stdout.split()))

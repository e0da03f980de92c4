"""What pytest is told for all tests: the seed at the head of a run, and a part of the nightly tests on demand."""

from __future__ import annotations

import fcntl
import functools
import gc
import importlib
import os
import sys
import zlib
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

import pytest

from tests.pace import IS_FULL, SEED

if TYPE_CHECKING:
    from collections.abc import Iterator

# Read when numpy is loaded. Matrices of tests are small: threads of BLAS wait for each other for half of the time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# To rewrite the asserts of all tests takes longer than all else of their imports: keep what comes of it.
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--part K/N``."""
    parser.addoption("--part", metavar="K/N", help="of the chosen tests only those of part K of N, from 0 on, by name")


def pytest_report_header() -> str:
    """Return the line with which a failure can be repeated."""
    return f"ETTRICK_SEED={SEED}" if IS_FULL else f"seed {SEED}, a sixteenth of the random examples, two in five draws"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of other parts; the names decide, so that every process leaves out the same."""
    if part := config.getoption("--part"):
        number, parts = map(int, part.split("/"))
        chosen, others = [], []
        for item in items:
            (others if zlib.crc32(item.nodeid.encode()) % parts != number else chosen).append(item)
        config.hook.pytest_deselected(items=others)
        items[:] = chosen


def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over all that was imported: it would look at it again in every long test."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _machine_code_is_made_once() -> Iterator[None]:
    """Let one process of the session make the machine code, while the others wait for what it leaves on the disk."""
    from ettrick.sim.compiled import run

    make: Any = run.machine_code

    @functools.cache
    def made(_progress: object = None) -> Any:
        with Path(gettempdir(), f"ettrick-{run.cache_folder().name}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            return make.__wrapped__()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "machine_code", made)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_replays_on_disk() -> Iterator[None]:
    """Keep the replays of tests, which may be of few requests, out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        services = importlib.import_module("ettrick.sim.prepare.services")
        patch.setattr(services, "cached_curve", lambda _content, _loads, make: tuple(make()))
        yield


@pytest.fixture
def short_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what a service attains rest on few requests, for tests of something else: to replay more takes seconds."""
    monkeypatch.setattr(importlib.import_module("ettrick.sim.prepare.services"), "_REPLAYED", 2000)

"""The user's cache on the disk, and digests that say which version of the simulator made what is in it.

Files of the cache may be deleted at any time; where one cannot be written, it is made again by every process.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_FILES = 256
"""Files of a folder of the cache at most [-]."""

_SETTLED = 2_000_000_000
"""Time after which a file that is written again has another time of change, on any file system [ns]."""


def cache_folder() -> Path:
    """Return the user's folder for what Ettrick keeps between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ettrick"


def keep(file: Path, content: bytes) -> None:
    """Write a file of the cache, whole or not at all, and delete the oldest of its folder where they are too many."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f"{file.name}.{os.getpid()}")
        part.write_bytes(content)
        part.replace(file)
        for oldest in sorted(file.parent.iterdir(), key=lambda path: path.stat().st_mtime)[:-MOST_FILES]:
            oldest.unlink()


def files_digest(folder: Path, names: Iterable[str]) -> str:
    """Return a digest of the names of files in a folder, and of what is in them."""
    digest = hashlib.blake2b(digest_size=16)
    for name in names:
        content = (folder / name).read_bytes()
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def source_digest(folder: Path) -> str:
    """Return :func:`files_digest` of the program and the data in a folder, read once for each state of the files.

    The state is the size, the time of the last write and that of the last change of each: whoever writes a file can
    set the one but not the other. While a file is so new that both may stay with the next write, nothing is kept.
    """
    states = sorted(_states(folder, ""))
    names = [name for name, *_ in states]
    file = (
        cache_folder() / "sources" / hashlib.blake2b(repr((str(folder), states)).encode(), digest_size=16).hexdigest()
    )
    with contextlib.suppress(OSError):
        return file.read_text("ascii")
    digest = files_digest(folder, names)
    if max(changed for *_, changed in states) + _SETTLED < time.time_ns():
        keep(file, digest.encode())
    return digest


def _states(folder: Path, prefix: str) -> Iterator[tuple[str, int, int, int]]:
    """Yield name, size and times of write and change of the sources in a folder."""
    with os.scandir(folder / prefix) as entries:
        for entry in entries:
            name = f"{prefix}{entry.name}"
            if name.endswith((".py", ".yaml", ".csv")):
                state = entry.stat()
                yield name, state.st_size, state.st_mtime_ns, state.st_ctime_ns
            elif entry.name not in ("__pycache__", "_data") and entry.is_dir():
                yield from _states(folder, f"{name}/")


@functools.cache
def simulator_digest() -> str:
    """Return the digest of the simulator that this process runs."""
    return source_digest(Path(__file__).parent)

"""Files that settings of a scenario name: logs and graphs, which are known by what is in them and not by their names.

The content of clusters and of what is extended is part of a study when it has been read. Files that strategies read
while a scenario is made are not: their names are strings at a key of :data:`ettrick.sim.yamlfile.FILE_KEYS`, at the end
of a path or in a mapping.
"""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ettrick.sim.yamlfile import FILE_KEYS, content_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def with_files(path: str, content: Any, change: Callable[[str], str]) -> Any:
    """Return what is written to a path of a scenario, with every name of a file in it changed."""
    if isinstance(content, str):
        return change(content) if path.rpartition(".")[2] in FILE_KEYS else content
    if isinstance(content, dict):
        return {key: with_files(str(key), value, change) for key, value in content.items()}
    return [with_files("", item, change) for item in content] if isinstance(content, list) else content


def names_files(text: str) -> bool:
    """Return whether a text ``path=value`` may name a file; always false where it cannot."""
    return text.partition("=")[0].rpartition(".")[2] in FILE_KEYS or any(f'"{key}"' in text for key in FILE_KEYS)


def file_digest(name: str) -> str | None:
    """Return SHA-256 of what is in a file, which is read again only if it has changed; ``None`` if it is not there."""
    try:
        status = Path(name).stat()
        return _digest(name, status.st_mtime_ns, status.st_size)
    except (OSError, ValueError):  # the latter for a name that no file can have
        return None


@functools.lru_cache(maxsize=1024)
def _digest(name: str, _changed: int, _size: int) -> str:
    return hashlib.sha256(content_of(Path(name))).hexdigest()


class Inputs:
    """The content of the files that settings name at the first request: the same for the life of this object."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def with_digests(self, texts: Iterable[str]) -> tuple[str, ...]:
        """Return texts ``path=value`` with digests instead of the names of files that are there."""
        return tuple(self._with_digests(text) if names_files(text) else text for text in texts)

    def _with_digests(self, text: str) -> str:
        path, _, value = text.partition("=")
        return f"{path}={json.dumps(with_files(path, json.loads(value), self._digest), ensure_ascii=False)}"

    def _digest(self, name: str) -> str:
        if name not in self._known:
            self._known[name] = file_digest(name) or name
        return self._known[name]

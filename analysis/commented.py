"""Lines of YAML with comments."""

from __future__ import annotations

import json
import re
import textwrap

__all__ = ["note", "quoted", "said"]

_WIDTH = 116
_COLUMN = 40
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "nan", "inf"})


def said(text: str, comment: str) -> list[str]:
    """Return a line with a comment beside it, or above it where there is no room."""
    line = f"{text:<{_COLUMN}} # {comment}"
    if len(line) <= _WIDTH:
        return [line]
    indent = " " * (len(text) - len(text.lstrip(" ")))
    return [*note(comment[0].upper() + comment[1:], indent), text]


def note(text: str, indent: str = "") -> list[str]:
    """Return a comment in lines, none of them too long."""
    return [f"{indent}# {line}" for line in textwrap.wrap(text, _WIDTH - len(indent) - 2, break_long_words=False)]


def quoted(text: str) -> str:
    """Return a text as YAML: in quotes where it could be taken for something else."""
    is_plain = _PLAIN.fullmatch(text) is not None and text.lower() not in _WORDS
    return text if is_plain else json.dumps(text, ensure_ascii=False)

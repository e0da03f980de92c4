"""Texts without signs that no XML may hold, such as control characters in the name of a part."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

__all__ = ["legible"]

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What a text of XML 1.0 may not hold, not even as a reference."""


def legible(value: Any) -> Any:
    """Return a report, or a part of one, with a sign in place of each that no XML may hold.

    Parameters
    ----------
    value
        Texts; tuples, lists and data classes of them. Whatever else there is stays as it is.
    """
    if isinstance(value, str):
        return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, tuple):
        parts = [legible(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [legible(part) for part in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = {field.name: legible(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **changes)
    return value

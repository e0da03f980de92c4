"""How wide words are, and how they are broken into lines and cut, so that nothing in a picture covers anything else."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["LINE", "TEXT", "TITLE", "block_height", "block_width", "cut", "width_of", "wrapped"]

TITLE, TEXT = 11.0, 8.5
"""Sizes of type [pt]: titles, and everything else."""
LINE = 1.3
"""From one line of a text to the next, in sizes of its type [-]."""

_SLACK = 1.03
_INCH = 72.0


@functools.lru_cache(maxsize=20_000)
def width_of(text: str, size: float = TEXT, is_bold: bool = False) -> float:
    """Return how wide a line of text is at most, with some slack for how programs place letters [in]."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    if not text:
        return 0.0
    face = FontProperties(family="DejaVu Sans", size=size, weight="bold" if is_bold else "normal")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a letter that the face lacks is a box
        width, _, _ = text_to_path.get_text_width_height_descent(text, face, False)
    return float(width) * _SLACK / _INCH


def block_width(text: str, size: float = TEXT, is_bold: bool = False) -> float:
    """Return how wide a text of several lines is [in]."""
    return max((width_of(line, size, is_bold) for line in text.split("\n")), default=0.0)


def block_height(text: str, size: float = TEXT) -> float:
    """Return how high a text of several lines is [in]."""
    return LINE * size * (text.count("\n") + 1) / _INCH


def cut(text: str, room: float, size: float = TEXT, is_bold: bool = False) -> str:
    """Return a line that is not wider than the room [in]; an ellipsis stands for what does not fit.

    It is taken out before the last third: names that begin alike often differ at their ends.
    """
    if width_of(text, size, is_bold) <= room:
        return text
    low, high = 0, len(text) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if width_of(_shortened(text, middle), size, is_bold) <= room else (low, middle - 1)
    return _shortened(text, low)


def _shortened(text: str, length: int) -> str:
    """Return so many characters of a text with an ellipsis between them."""
    tail = length // 3
    return f"{text[: length - tail].rstrip()}…{text[len(text) - tail :].lstrip()}"


def wrapped(text: str, room: float, size: float = TEXT, lines: int = 2, is_bold: bool = False) -> str:
    """Return a text in at most so many lines, none wider than the room [in]; what does not fit is cut.

    White space of the text itself is one space each. A word that is wider than a line is broken.
    """
    words = [part for word in text.split() for part in _parts(word, room, size, is_bold)]
    found: list[str] = []
    for word in words:
        longer = f"{found[-1]} {word}" if found else word
        if found and width_of(longer, size, is_bold) <= room:
            found[-1] = longer
        else:
            found.append(word)
    if len(found) > lines:
        found = [*found[: lines - 1], cut(" ".join(found[lines - 1 :]), room, size, is_bold)]
    return "\n".join(found)


def _parts(word: str, room: float, size: float, is_bold: bool) -> Iterable[str]:
    """Return a word in parts that each fit on a line."""
    while word:
        length = len(word)
        while length > 1 and width_of(word[:length], size, is_bold) > room:
            length = max(min(length - 1, int(length * room / width_of(word[:length], size, is_bold))), 1)
        yield word[:length]
        word = word[length:]

"""Colours of a page in the light and in the dark."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from analysis.plots.style import FAINT, GREY, HUES, INK, ON_DARK, ON_LIGHT, RAMP

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Paint", "paints", "variable"]

PAGE_LIGHT, PAGE_DARK = "#ffffff", "#15181c"

_DARK_HUES = ("#4ba6e0", "#f0864a", "#35b98e", "#dd9bbe", "#e8ad2e", "#7cc5ee", "#a98bc4", "#bb9a45")
"""`HUES` as light as a dark page needs them, in order."""

_DARK = dict(zip(map(str.lower, HUES), _DARK_HUES, strict=True)) | {
    PAGE_LIGHT: PAGE_DARK,
    INK: "#e6e9ed",
    GREY: "#8f959f",
    FAINT: "#2e343b",
}
_KEPT = frozenset(map(str.lower, (*RAMP, ON_LIGHT, ON_DARK)))
"""Shades of tables, and type on them: the shades carry their own light."""
_NEUTRAL = 0.12
"""Colours whose channels differ by less than this are greys, which change places with each other."""


class Paint(NamedTuple):
    """A colour of the page: the name of its variable, and what it is in the light and in the dark."""

    name: str
    light: str
    dark: str


def variable(color: str) -> str:
    """Return the name of the variable that stands for a colour of a picture."""
    return f"--p{color.lower().removeprefix('#')}"


def paints(colors: Iterable[str]) -> list[Paint]:
    """Return the variables of these colours of pictures and of the hues of all, in order."""
    wanted = {color.lower() for color in (*colors, *HUES, INK, GREY, FAINT, PAGE_LIGHT)}
    return [Paint(variable(color), color, _dark(color)) for color in sorted(wanted)]


def _dark(color: str) -> str:
    """Return what a colour is on a dark page: greys change places with each other, others stay."""
    if color in _DARK:
        return _DARK[color]
    if color in _KEPT:
        return color
    channels = [int(color[place : place + 2], 16) for place in (1, 3, 5)]
    if max(channels) - min(channels) > _NEUTRAL * 255:
        return color
    ends = [int(PAGE_DARK[place : place + 2], 16) for place in (1, 3, 5)]
    turned = [round(end + (1 - channel / 255) * (235 - end)) for end, channel in zip(ends, channels, strict=True)]
    return "#" + "".join(f"{channel:02x}" for channel in turned)

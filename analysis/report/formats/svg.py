"""Pictures for a page: SVG that stands in the text of the page, and whose colours follow it from light to dark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.plots import draw, render
from analysis.report.formats.paint import variable

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

__all__ = ["Inline", "inline_svg"]

_COLOR = re.compile(r"#[0-9a-fA-F]{6}\b")
_DECIMALS = re.compile(r"(\.\d\d)\d+")
_LINK = re.compile(r"url\(#([^)]+)\)")
_LEFT_OUT = ("metadata", "style")
"""Elements that tell nothing, or would tell it to the whole page."""
_SHORT = ("d", "x", "y", "width", "height", "points", "transform", "cx", "cy", "r")
"""Attributes whose numbers need no more than two decimals: hundredths of a point."""


class Inline(NamedTuple):
    """A picture as text of a page, the colours that it uses, as ``#rrggbb``, and its height over its width."""

    markup: str
    colors: frozenset[str]
    ratio: float


def inline_svg(chart: Any, name: str) -> Inline:
    """Return a picture as a part of a page.

    Parameters
    ----------
    chart
        What is drawn: one of the types of `analysis.plots.CHARTS`.
    name
        What its ids begin with, so that no two pictures of a page share one.
    """
    from xml.etree import ElementTree

    root = ElementTree.fromstring(render(draw(chart), ".svg"))
    for element in list(root.iter()):
        element.tag = element.tag.rpartition("}")[2]
        for child in [child for child in element if child.tag.rpartition("}")[2] in _LEFT_OUT]:
            element.remove(child)
    _rename(root, name)
    colors: set[str] = set()
    for element in root.iter():
        _repaint(element, colors)
        if element.tag not in ("text", "tspan"):
            element.text = None
        element.tail = None
    size = root.attrib["viewBox"].split()
    root.attrib = {"viewBox": root.attrib["viewBox"], "width": size[2], "height": size[3], "aria-hidden": "true"}
    return Inline(ElementTree.tostring(root, encoding="unicode"), frozenset(colors), float(size[3]) / float(size[2]))


def _rename(root: Element, name: str) -> None:
    """Put a name before all ids that something refers to, and take the others away."""
    used: set[str] = set()
    for element in root.iter():
        for key in list(element.attrib):
            value = element.attrib[key]
            if key.endswith("}href"):
                del element.attrib[key]
                element.attrib["href"] = f"#{name}-{value[1:]}"
                used.add(value[1:])
            elif "url(#" in value:
                used.update(_LINK.findall(value))
                element.attrib[key] = _LINK.sub(rf"url(#{name}-\1)", value)
    for element in root.iter():
        old = element.attrib.pop("id", None)
        if old in used:
            element.attrib["id"] = f"{name}-{old}"


def _repaint(element: Element, colors: set[str]) -> None:
    """Put variables of the page in the place of colours, and cut digits that nobody sees."""
    for key, value in element.attrib.items():
        if key in _SHORT:
            element.attrib[key] = " ".join(_DECIMALS.sub(r"\1", value).split())
    look = element.attrib.get("style", "")
    found = {color.lower() for color in _COLOR.findall(look)}
    if found:
        colors |= found
        element.attrib["style"] = _COLOR.sub(lambda match: f"var({variable(match[0])})", look)

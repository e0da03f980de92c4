"""The report as an HTML file that needs nothing else: no network, no fonts, no scripts from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick.analysis.page.charts import CONTROLS, NARROW, draw, render
from ettrick.analysis.page.charts.sheet import FAINT, GREY, HUES, INK, ON_DARK, ON_LIGHT, RAMP, WIDTH
from ettrick.analysis.page.formats.markdown import figure_table
from ettrick.analysis.page.model import Figure, Number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from xml.etree.ElementTree import Element

    from markupsafe import Markup

    from ettrick.analysis.page.model import FirstScreen, Report, Words

# ----------------------------------------
# Colours of a page in the light and in the dark.

PAGE_LIGHT, PAGE_DARK = "#ffffff", "#15181c"

# `HUES` as light as a dark page needs them, in order.
_DARK_HUES = ("#3f9bd8", "#f0864a", "#35c598", "#eab0d4", "#f2dc82", "#cfdcff", "#9a6cf0", "#d83f7e")

_DARK = dict(zip(map(str.lower, HUES), _DARK_HUES, strict=True)) | {
    PAGE_LIGHT: PAGE_DARK,
    INK: "#e6e9ed",
    GREY: "#8f959f",
    FAINT: "#2e343b",
}

# Shades of tables, and type on them: the shades carry their own light.
_KEPT = frozenset(map(str.lower, (*RAMP, ON_LIGHT, ON_DARK)))
_NEUTRAL = 0.12  # colours whose channels differ by less than this are greys, which change places with each other


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


# ----------------------------------------
# Pictures for a page: SVG that stands in the text of the page, and whose colours follow it from light to dark.

_COLOR = re.compile(r"#[0-9a-fA-F]{6}\b")
_DECIMALS = re.compile(r"(\.\d\d)\d+")
_LINK = re.compile(r"url\(#([^)]+)\)")
_LEFT_OUT = ("metadata", "style")  # elements that tell nothing, or would tell it to the whole page

# Attributes whose numbers need no more than two decimals: hundredths of a point.
_SHORT = ("d", "x", "y", "width", "height", "points", "transform", "cx", "cy", "r")
_LEAST = 0.97  # pixels of a screen that a point of a narrow picture has at least, so that its type is read


class Inline(NamedTuple):
    """A picture as text of a page, the colours that it uses, as ``#rrggbb``, and its width and height [pt]."""

    markup: str
    colors: frozenset[str]
    width: float
    height: float


def inline_svg(chart: Any, name: str, width: float = WIDTH) -> Inline:
    """Return a picture as a part of a page.

    Its ids begin with the name, so that no two pictures of a page share one; what is narrower [in] than others is for
    the screen of a phone.
    """
    from xml.etree import ElementTree

    root = ElementTree.fromstring(render(draw(chart, width), ".svg"))
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
    _, _, across, up = root.attrib["viewBox"].split()
    root.attrib = {"viewBox": root.attrib["viewBox"], "width": across, "height": up, "aria-hidden": "true"}
    if width < WIDTH:
        root.attrib |= {"class": "narrow", "style": f"min-width:{_LEAST * float(across):.0f}px"}
    return Inline(ElementTree.tostring(root, encoding="unicode"), frozenset(colors), float(across), float(up))


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
    used = {color.lower() for color in _COLOR.findall(look)}
    if used:
        colors |= used
        element.attrib["style"] = _COLOR.sub(lambda match: f"var({variable(match[0])})", look)


_PAGE = Path(__file__).parent / "page"
_EXPLORER = ("picture.js", "explorer.js")
_LONG = 20  # rows of a table from which on it is folded

# Letters of an answer from which on its type is smaller, so that the first screen holds more than it.
_LONG_ANSWER = 140
_LOW = 0.4  # height over width of a first picture below which there is room for text under it
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%)")  # where no line may end


def write(report: Report) -> bytes:
    """Return the content of the file."""
    terms = dict(report.first_screen.glossary)
    first = [] if report.first_screen.picture is None else _forms(report.first_screen.picture.chart, "first")
    drawn = _drawn(report)
    colors = {color for forms in (first, *drawn.values()) for form in forms for color in form.colors}
    page = _rendered(
        "page.html",
        ("page.js", *(_EXPLORER if report.explorer is not None else ())),
        {"glossed": lambda words: _markup(words, terms)},
        report=report,
        first_screen=report.first_screen,
        first=_markup_of(first),
        is_low=bool(first) and first[0].height < _LOW * first[0].width,
        pictures={key: _markup_of(forms) for key, forms in drawn.items()},
        paints=paints(colors),
        data=None if report.explorer is None else _safe(_script_json(report.explorer)),
        numbers=list(_numbers(report.first_screen)),
        long=_LONG,
        long_answer=_LONG_ANSWER,
    )
    return page.encode().translate(None, CONTROLS)


def explore_page(title: str, question: str, knobs: list[dict[str, Any]]) -> str:
    """Return the page of `ettrick explore`, which has its pictures from the program that shows it.

    Knobs are sliders: ``name``, ``title``, ``worth``, the texts of their ``stops``, and where they ``start``.
    """
    values = {"title": title, "question": question, "knobs": knobs, "data": _safe(_script_json(knobs))}
    return _rendered("explore.html", ("page.js", "explore.js"), {}, paints=paints(()), **values)


def _rendered(
    template: str, script_files: Iterable[str], filters: Mapping[str, Callable[..., Markup]], **values: Any
) -> str:
    """Return a page with its style and its scripts in it."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_PAGE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"tabulated": figure_table, "words": _markup, "css": _css_text, **filters}
    scripts, style = [_part(name) for name in script_files], _safe(_part("style.css"))
    hashes = [_hash(script) for script in scripts]
    return environment.get_template(template).render(
        style=style, scripts=[_safe(script) for script in scripts], hashes=hashes, **values
    )


def _forms(chart: Any, name: str) -> list[Inline]:
    """Return a picture, and its form for the screen of a phone, unless it has a width of its own on any screen."""
    wide, narrow = inline_svg(chart, name), inline_svg(chart, f"{name}-narrow", NARROW)
    return [wide] if narrow.width >= wide.width else [wide, narrow]


def _markup_of(forms: Sequence[Inline]) -> Markup:
    return _safe("".join(form.markup for form in forms))


def _drawn(report: Report) -> dict[str, list[Inline]]:
    """Return the pictures of all sections by their keys, each with ids of its own; none repeats a heading."""
    charts = {
        item.key: item.chart._replace(title="") if getattr(item.chart, "title", "") == section.title else item.chart
        for section in report.sections
        for item in section.items
        if isinstance(item, Figure)
    }
    return {key: _forms(chart, f"v{number}") for number, (key, chart) in enumerate(charts.items())}


def _part(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")


def _safe(text: str) -> Markup:
    from markupsafe import Markup

    return Markup(text)


def _hash(script: str) -> str:
    """Return what tells the browser that this script belongs to the page (CSP, level 2)."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _script_json(content: object) -> str:
    """Return JSON that may stand inside a script element: nothing in it ends the element or begins another."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _css_text(text: str) -> str:
    """Return the inside of a text of CSS: whatever is no plain letter or digit by its number, blanks too."""
    return re.sub(r"[^0-9A-Za-z]", lambda match: f"\\{ord(match[0]):06x}", text)


def _markup(words: Words | str, terms: dict[str, str] | None = None) -> Markup:
    """Return a text as HTML: numbers with their places, terms with what they mean, once: these are taken out."""
    parts = (words,) if isinstance(words, str) else words
    return _safe("").join(
        _number(part) if isinstance(part, Number) else _explained(part, {} if terms is None else terms)
        for part in parts
    )


def _number(number: Number) -> Markup:
    markup = _safe('<data value="{}" data-source="{}" data-formula="{}">{}</data>')
    text = number.text.replace(" ", "\N{NO-BREAK SPACE}", 1)
    return markup.format(repr(number.value), "\n".join(number.sources), number.formula, text)


def _explained(text: str, terms: dict[str, str]) -> Markup:
    """Return a text in which each term that is still to be explained says once what it means."""
    from markupsafe import escape

    text = _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text)
    if not terms:
        return escape(text)
    pattern = "|".join(re.escape(term) for term in sorted(terms, key=len, reverse=True))
    markup, at = _safe(""), 0
    for match in re.finditer(rf"(?<!\w)(?:{pattern})(?!\w)", text):
        meaning = terms.pop(match[0], None)
        if meaning is not None:
            markup += escape(text[at : match.start()])
            markup += _safe('<abbr title="{}">{}</abbr>').format(meaning, match[0])
            at = match.end()
    return markup + escape(text[at:])


def _numbers(first_screen: FirstScreen) -> Iterable[Number]:
    texts = (first_screen.answer, first_screen.doubt, *first_screen.drivers, *first_screen.not_covered)
    return dict.fromkeys(part for words in texts for part in words if isinstance(part, Number))

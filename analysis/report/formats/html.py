"""One HTML file that needs nothing else: no network, no fonts, no scripts from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.plots import CONTROLS
from analysis.report.formats.paint import paints
from analysis.report.formats.svg import inline_svg
from analysis.report.model import Picture
from analysis.report.words import Number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from markupsafe import Markup

    from analysis.report.formats.svg import Inline
    from analysis.report.model import Opening, Report
    from analysis.report.words import Words

__all__ = ["write"]

_PAGE = Path(__file__).parent / "page"
_EXPLORER = ("picture.js", "explorer.js")
_LONG = 20
"""Rows of a table from which on it is folded."""
_LONG_ANSWER = 140
"""Letters of an answer from which on its type is smaller, so that the first screen holds more than it."""
_LOW = 0.4
"""Height over width of a first picture below which there is room for text under it."""
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%)")
"""Where no line may end."""


def write(report: Report) -> bytes:
    """Return the content of the file.

    Parameters
    ----------
    report
        What it says.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_PAGE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    terms = dict(report.opening.glossary)
    environment.filters |= {"words": _markup, "glossed": lambda words: _markup(words, terms), "css": _css_text}
    first = None if report.opening.picture is None else inline_svg(report.opening.picture.chart, "first")
    drawn = _drawn(report)
    colors = {color for picture in (first, *drawn.values()) if picture is not None for color in picture.colors}
    scripts = [_part(name) for name in ("page.js", *(_EXPLORER if report.explorer is not None else ()))]
    page = environment.get_template("page.html").render(
        report=report,
        opening=report.opening,
        first=None if first is None else _safe(first.markup),
        is_low=first is not None and first.ratio < _LOW,
        pictures={key: _safe(picture.markup) for key, picture in drawn.items()},
        paints=paints(colors),
        style=_safe(_part("style.css")),
        scripts=[_safe(script) for script in scripts],
        hashes=[_hash(script) for script in scripts],
        data=None if report.explorer is None else _safe(_script_json(report.explorer)),
        numbers=list(_numbers(report.opening)),
        long=_LONG,
        long_answer=_LONG_ANSWER,
    )
    return page.encode().translate(None, CONTROLS)


def _drawn(report: Report) -> dict[str, Inline]:
    """Return the pictures of all sections by their keys, each with ids of its own; none repeats a heading."""
    charts = {
        item.key: _without(item.chart, section.title)
        for section in report.sections
        for item in section.items
        if isinstance(item, Picture)
    }
    return {key: inline_svg(chart, f"v{number}") for number, (key, chart) in enumerate(charts.items())}


def _without(chart: Any, heading: str) -> Any:
    """Return what is drawn below a heading: without its title, if that is the heading."""
    return chart._replace(title="") if getattr(chart, "title", "") == heading else chart


def _part(name: str) -> str:
    """Return a file that goes into the page as it is."""
    return (_PAGE / name).read_text(encoding="utf-8")


def _safe(text: str) -> Markup:
    """Return markup of our own as such."""
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
    """Return a text as HTML: numbers with the places that they come from, terms with what they mean at first sight.

    Parameters
    ----------
    words
        The text.
    terms
        What is still to be explained; what is explained is taken out.
    """
    parts = (words,) if isinstance(words, str) else words
    return _safe("").join(
        _number(part) if isinstance(part, Number) else _explained(part, {} if terms is None else terms)
        for part in parts
    )


def _number(number: Number) -> Markup:
    """Return a number with its value and where it comes from."""
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
    made, at = _safe(""), 0
    for match in re.finditer(rf"(?<!\w)(?:{pattern})(?!\w)", text):
        meaning = terms.pop(match[0], None)
        if meaning is not None:
            made += escape(text[at : match.start()])
            made += _safe('<abbr title="{}">{}</abbr>').format(meaning, match[0])
            at = match.end()
    return made + escape(text[at:])


def _numbers(opening: Opening) -> Iterable[Number]:
    """Return the numbers of the first screen, in order, each once."""
    texts = (opening.answer, opening.doubt, *opening.drivers, *opening.not_covered)
    return dict.fromkeys(part for words in texts for part in words if isinstance(part, Number))
